"""What a `BenchmarkTable` says: means, verdicts against chance, who is not above it, and who has no numbers."""

import numpy as np
import pytest

from attnx.benchmarks import BenchmarkTable
from attnx.benchmarks.result import SuiteTable
from attnx.errors import ChoiceError
from tests.results.examples import truth


def made(suites):
    """Suite → explainer (or chance) → reciprocal ranks; the second column is whether they are 1."""
    columns = {
        suite: {name: np.stack([np.array(one), np.array(one) == 1.0], 1).astype(float) for name, one in several.items()}
        for suite, several in suites.items()
    }
    return BenchmarkTable({suite: SuiteTable(values=values) for suite, values in columns.items()})


def test_a_cell_is_the_mean_with_its_interval():
    cell = truth().cell("raw", "recall")
    assert cell.mean == pytest.approx((0.5 + 1 + 1 + 0.5 + 1 / 3 + 1) / 6)
    assert cell.low < cell.mean < cell.high
    assert truth().cell("raw", "recall", "first").mean == 0.5


def test_better_worse_and_no_different_are_told_by_the_paired_difference():
    chance = [0.2, 0.3, 0.4] * 4
    found = made({"s": {
        "good": [one + 0.5 for one in chance],
        "bad": [one - 0.1 for one in chance],
        "lots": [one + (0.1 if place % 2 else -0.1) for place, one in enumerate(chance)],
        "chance": chance,
    }})  # fmt: skip
    assert found.significance("good", "s") == "above chance"
    assert found.significance("bad", "s") == "below chance"
    assert found.significance("lots", "s") == "not significantly different from chance"
    assert found.suites["s"].not_above_chance == ("lots", "bad")
    assert "s: not above chance: lots, bad." in found.foot()


def test_of_what_should_be_small_less_than_chance_is_better():
    values = np.stack([np.full(8, 0.5), np.linspace(0.0, 0.1, 8)], 1)
    chance = values + np.array([-0.2, 0.3])
    suite = SuiteTable(values={"one": values, "chance": chance}, columns=("c", "less"), lower_is_better=("less",))
    found = BenchmarkTable({"s": suite})
    assert found.significance("one", "s", "less") == "above chance"


def test_fewer_than_six_inputs_tell_nothing_and_say_so():
    found = made({"s": {"good": [1.0] * 5, "chance": [0.2] * 5}})
    assert found.significance("good", "s") == "not significantly different from chance"
    assert "s: fewer than 6 inputs cannot be told apart from chance." in found.foot()


def test_explainers_stand_best_first_and_chance_stands_for_what_is_missing():
    found = made({
        "one": {"half": [0.5] * 6, "all": [1.0] * 6, "once": [1.0] * 6, "chance": [0.1] * 6},
        "two": {"half": [0.9] * 6, "all": [0.9] * 6, "chance": [0.1] * 6},
    })  # fmt: skip
    assert found.methods == ("all", "half", "once")


def test_the_mean_over_suites_is_of_those_that_have_a_number_in_all():
    found = made({
        "one": {"all": [1.0] * 6, "once": [1.0] * 6, "chance": [0.1] * 6},
        "two": {"all": [0.5] * 12, "chance": [0.1] * 12},
    })  # fmt: skip
    assert found.mean("all").mean == 0.75
    assert found.mean("once") is None
    assert truth().mean("raw") is None  # its suites measure different things


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (("raw", "recal"), "suite 'recal' is not known; there are: recall, texts"),
        (("rw", "recall"), "did you mean 'raw'"),
        (("raw", "recall", "top"), "column 'top' is not known; there are: reciprocal rank, first"),
        (("gradient", "texts"), "gradient has no numbers: it has none"),
    ],
)
def test_what_was_not_measured_is_a_line(asked, message):
    with pytest.raises(ChoiceError, match=message):
        truth().cell(*asked)


def test_the_table_has_chance_first_marks_and_a_dash_for_what_refused():
    lines = truth().to_text().splitlines()
    rows = {line.split()[0]: line for line in lines if line}
    order = [line.split()[0] for line in lines if line.startswith(("chance", "(first)", "raw", "gradient"))]
    assert order[:2] == ["chance", "(first)"]
    assert "+" in rows["raw"]
    assert rows["gradient"].rstrip().endswith("–")
    assert "2 left out that the model gets wrong" in truth().to_text()
    assert "texts: gradient has no numbers: it has none" in truth().to_text()


def test_a_row_of_the_frame_is_a_suite_an_explainer_and_a_metric():
    frame = truth().to_frame()
    assert len(frame) == 2 * (2 + 2) + 2 * (1 + 1)
    assert set(frame["suite"]) == {"recall", "texts"}


def test_the_plot_has_a_panel_for_each_suite_and_fills_only_what_is_above_chance():
    from matplotlib import pyplot

    found = made({"s": {"good": [1.0] * 8, "lots": [0.1, 0.3] * 4, "chance": [0.2] * 8}})
    (axes,) = found.plot()
    assert axes.get_title() == "s (8)"
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert [dot.get_markerfacecolor() == "white" for dot in dots] == [True, False]
    pyplot.close("all")


def test_the_page_shows_the_table_where_scripts_run_and_where_they_do_not():
    page = truth().to_html()
    assert 'id="truth"' in page
    assert "Do they find what is known to decide?" in page
    assert "texts: gradient has no numbers: it has none" in page
