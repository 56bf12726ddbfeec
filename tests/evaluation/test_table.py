"""The table that every evaluation is: means, differences to chance, a ranking, and every export."""

import csv
import io
import shutil
import subprocess

import numpy as np
import pytest

from attnx.errors import ChoiceError
from attnx.evaluation import EvaluationTable
from attnx.statistics import Summary, sign_flips

RANDOM = np.random.default_rng(0)
CHANCE = RANDOM.normal(0, 0.1, (12, 2))
SAME = CHANCE + RANDOM.normal(0, 0.05, (12, 2))


def table(**options):
    """`good` is above chance in the first column and, lower being better, below chance in the second."""
    values = {"same": SAME, "good": CHANCE + 0.5, "chance": CHANCE}
    fields = {"columns": ("gain_%", "loss"), "lower_is_better": ("loss",), "baseline": "chance", "caption": "A & B"}
    return EvaluationTable(**{"values": values, **fields, **options})


def test_a_cell_is_the_mean_over_the_inputs_with_its_interval():
    assert table().cell("good", "loss") == Summary.of(table().values["good"][:, 1])
    assert table().cell("good") == table().cell("good", "gain_%")


def test_a_difference_is_paired_and_its_interval_corrected_for_all_that_are_compared():
    result = table()
    difference = result.difference("good")
    assert (difference.mean, difference.low, difference.high) == pytest.approx((0.5, 0.5, 0.5))
    test = sign_flips(np.stack([result.array(name) - result.array("chance") for name in result.methods], axis=1))
    assert [result.p_value(name) for name in result.methods] == test.p.tolist()
    same = result.difference("same")
    assert same.high - same.low == pytest.approx(2 * test.half_width[0])
    assert result.difference("good", to="same").mean == -result.difference("same", to="good").mean


def test_without_correction_the_interval_is_that_of_the_difference_alone():
    class Alone(EvaluationTable):
        correction = False

    result = table()
    alone = Alone(values=result.values, columns=result.columns, baseline="chance")
    assert alone.difference("same") == Summary.of(result.array("same") - result.array("chance"))


def test_significance_and_ranking_know_which_columns_are_better_when_low():
    result = table()
    assert [result.significance("good", column) for column in result.columns] == ["above chance", "below chance"]
    assert result.significance("same") == "not significantly different from chance"
    assert (result.ranking(), result.ranking("loss")) == (("good", "same"), ("same", "good"))


def test_five_inputs_cannot_say_anything():
    few = table(values={name: values[:5] for name, values in table().values.items()})
    assert few.significance("good") == "not significantly different from chance"
    assert "Fewer than 6 inputs" in few.to_text()


def test_undefined_numbers_are_left_out_of_a_mean_and_counted():
    values = {"a": np.array([[1.0], [np.nan], [3.0]])}
    cell = EvaluationTable(values=values, columns=("x",)).cell("a")
    assert (cell.mean, cell.count, cell.undefined) == (2.0, 2, 1)


def test_text_and_markdown_have_marks_intervals_and_the_direction_of_each_column():
    text = table().to_text()
    head, *rows = text.split("\n\n")[1].splitlines()
    assert head.endswith("loss ↓")
    assert [row.split()[0] for row in rows] == ["same", "good", "chance"]
    assert "] +" in rows[1]
    assert rows[1].endswith("] −")
    assert "corrected 95 % interval" in text
    assert "| good |" in table().to_markdown()


def test_latex_is_escaped_and_has_rules_a_caption_and_the_best_in_bold(tmp_path):
    latex = table().to_latex(tmp_path / "table.tex")
    assert (tmp_path / "table.tex").read_text(encoding="utf-8") == f"{latex}\n"
    lines = latex.splitlines()
    assert r"\caption{A \& B}" in lines
    assert lines[lines.index(r"\toprule") + 1] == r" & gain\_\% & loss $\downarrow$ \\"
    good = next(line for line in lines if line.startswith("good")).split(" & ")
    assert good[1].startswith(r"\textbf{.4")
    assert not good[2].startswith(r"\textbf")
    assert latex.count("{") == latex.count("}")


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="LaTeX is not installed")
def test_latex_compiles(tmp_path):
    source = r"\documentclass{article}\usepackage[utf8]{inputenc}\usepackage{booktabs}\begin{document}"
    (tmp_path / "x.tex").write_text(f"{source}{table().to_latex()}\\end{{document}}", encoding="utf-8")
    subprocess.run(["pdflatex", "-halt-on-error", "x.tex"], cwd=tmp_path, check=True, capture_output=True)


def test_a_name_from_outside_is_no_command_of_latex():
    latex = EvaluationTable(values={r"\input{x}$": np.ones((1, 1))}, columns=("^~#",)).to_latex()
    assert r"\textbackslash{}input\{x\}\$" in latex
    assert r"\textasciicircum{}\textasciitilde{}\#" in latex


def test_csv_has_a_record_for_each_input_and_method():
    records = list(csv.DictReader(io.StringIO(table().to_csv())))
    assert len(records) == 3 * 12
    assert float(records[0]["loss"]) == SAME[0, 1]


def test_json_and_files_give_the_same_table_back(tmp_path):
    result = table()
    assert EvaluationTable.from_json(result.to_json()) == result
    result.save(tmp_path / "table.safetensors")
    assert EvaluationTable.load(tmp_path / "table.safetensors") == result


def test_the_page_has_the_table():
    assert '"heading":"A & B"' in table().to_html().replace("\\u0026", "&")


def test_the_plot_has_a_row_for_each_method_the_best_on_top_and_chance_dashed():
    ax = table().plot()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["same", "good"]
    assert any(line.get_linestyle() == "--" for line in ax.lines)


def test_what_is_not_in_the_table_is_an_error_that_names_what_is():
    with pytest.raises(ChoiceError, match=r"method 'god' is not known; .* did you mean 'good'"):
        table().cell("god")
    with pytest.raises(ChoiceError, match="column 'gain' is not known"):
        table().cell("good", "gain")
    with pytest.raises(ChoiceError, match="has no baseline; name a method to compare with: to='same'"):
        table(baseline=None).difference("same")
