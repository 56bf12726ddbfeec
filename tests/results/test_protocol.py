"""Every kind of result can be kept, compared and looked at in the same ways."""

import dataclasses
import io
import json
from html.parser import HTMLParser

import numpy as np
import pytest
from rich.console import Console

from attnx.errors import AttnxError, FileFormatError
from attnx.results import VIEWS, Result
from tests.made import with_scores
from tests.results import examples


@pytest.fixture(params=examples.EXAMPLES, ids=lambda make: make.__name__)
def make(request):
    return request.param


def kinds(base=Result):
    return {one for each in base.__subclasses__() for one in ({each} | kinds(each)) if hasattr(one, "kind")}


def test_every_kind_has_an_example_and_a_view():
    assert {type(make()) for make in examples.EXAMPLES} == kinds()
    assert {one.kind for one in kinds()} == set(VIEWS.names())


def test_two_of_the_same_numbers_are_equal(make):
    assert make() == make()
    assert hash(make()) == hash(make())
    if hasattr(make(), "provenance"):
        assert make() != dataclasses.replace(make(), provenance={"model": "another"})
    assert make() != "another"


def test_one_other_number_makes_another_result():
    one = examples.explanation()
    scores = one["flow"].copy()
    scores[0, 0] += 1e-12
    assert with_scores(one, relevance={"raw": one["raw"], "flow": scores}) != one


def test_saved_and_loaded_it_is_equal(make, tmp_path):
    made, path = make(), tmp_path / "x.safetensors"
    made.save(path)
    loaded = type(made).load(path)
    assert loaded == made
    assert repr(loaded) == repr(made)
    assert loaded.to_text() == made.to_text()
    with pytest.raises(AttnxError, match="cannot write"):
        made.save(tmp_path / "missing" / "x.safetensors")


def test_as_json_it_goes_there_and_back(make):
    made = make()
    told = json.loads(made.to_json())
    assert (told.pop("kind"), told.pop("format")) == (made.kind, 3)
    assert told == made.to_dict()
    assert "NaN" not in made.to_json()
    assert type(made).from_json(made.to_json()) == made
    assert type(made).from_dict(made.to_dict()) == made


def test_arrays_keep_their_precision(tmp_path):
    made = examples.explanation()
    made.save(tmp_path / "x.safetensors")
    for again in (type(made).load(tmp_path / "x.safetensors"), type(made).from_json(made.to_json())):
        assert again["raw"].dtype == np.float64
        assert again.attributions["raw"].matrices.dtype == np.float32


def test_a_file_of_another_kind_is_refused_by_name(make, tmp_path):
    made = make()
    other = next(one for one in kinds() if one is not type(made))
    made.save(tmp_path / "x.safetensors")
    with pytest.raises(FileFormatError, match=f"holds no {other.kind} .* it is an? {made.kind}"):
        other.load(tmp_path / "x.safetensors")
    with pytest.raises(FileFormatError, match=f"not an? {other.kind} .* it is an? {made.kind}"):
        other.from_json(made.to_json())


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null", '{"format": 2}', '{"format": 99}', '"x"'])
def test_json_of_something_else_is_an_error(make, text):
    with pytest.raises(FileFormatError, match=f"not an? {make().kind} that"):
        type(make()).from_json(text)


def test_as_text_and_in_markdown_it_has_the_same_numbers(make):
    made = make()
    assert str(made) == made.to_text()
    lines = made.to_markdown().splitlines()
    widths = {line.replace(r"\|", "").count("|") for line in lines if line.startswith("|")}
    assert len(widths) <= 2  # as many cells in each line; the table of a pronoun's report may be of another width
    assert "|---|" in made.to_markdown()
    assert "nan" not in (made.to_text() + made.to_markdown()).lower()


def test_as_a_frame_and_as_csv_it_has_a_row_for_each_number(make):
    pytest.importorskip("pandas", reason="pandas is not installed")
    made = make()
    frame, lines = made.to_frame(), made.to_csv().splitlines()
    assert len(frame) == len(lines) - 1 > 0
    assert lines[0] == ",".join(frame.columns)
    assert "nan" not in made.to_csv().lower()


def test_rich_and_matplotlib_show_it(make):
    from matplotlib import pyplot

    console = Console(record=True, width=120, force_terminal=True, color_system="truecolor")
    console.print(make())
    assert console.export_text().strip()
    assert make().plot() is not None
    pyplot.close("all")


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.seen = []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))


def test_it_is_a_page_and_a_cell_of_a_notebook(make, tmp_path):
    made = make()
    page, cell = Tags(), Tags()
    page.feed(made.to_html())
    cell.feed(made._repr_html_())
    assert [tag for tag, _ in page.seen][:2] == ["html", "head"]
    assert any(tag == "iframe" and attrs["sandbox"] == "allow-scripts" for tag, attrs in cell.seen)
    assert made.to_html(tmp_path / "x.html", title="a title") is None
    assert "a title" in (tmp_path / "x.html").read_text(encoding="utf-8")


def test_a_kind_without_a_view_says_so():
    class Unseen(Result):
        kind = "unseen"

    with pytest.raises(AttnxError, match="view 'unseen' is not known"):
        Unseen().to_text()


FORMULA = r"$\foo$"


def _with_formulas(made):
    """The result as a file tells it that has a formula for every text and every name, where that can be loaded."""
    document = json.loads(made.to_json())

    def loads():
        try:
            return type(made).from_json(json.dumps(document))
        except FileFormatError:
            return None

    def change(members):
        for name, value in list(members.items() if isinstance(members, dict) else enumerate(members)):
            if isinstance(value, str) and name not in ("kind", "format"):
                members[name] = FORMULA
                members[name] = FORMULA if loads() else value
            elif isinstance(value, (dict, list)):
                change(value)
            if isinstance(members, dict) and FORMULA not in members:
                members[FORMULA] = members.pop(name)
                if not loads():
                    members[name] = members.pop(FORMULA)

    change(document)
    return loads()


@pytest.mark.filterwarnings("ignore")
def test_a_formula_in_a_text_or_a_name_is_drawn_as_it_stands(make):
    from matplotlib import pyplot

    forged = _with_formulas(make())
    assert json.dumps(FORMULA) in forged.to_json()
    try:
        drawn = np.ravel(forged.plot())[0]
        (getattr(drawn, "figure", None) or drawn).savefig(io.BytesIO(), format="svg")
    finally:
        pyplot.close("all")
