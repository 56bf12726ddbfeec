"""Text from the input stays text in CSV, Markdown, JSON and in what is printed."""

import csv
import io
import json
from dataclasses import replace

import pytest

from attnx import explain
from attnx.views import aligned, json_line
from attnx.views.escaping import csv_cell, markdown_text
from attnx.views.table import piped
from tests import zoo

OSC = "\x1b]0;owned\x07"


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", " =1"])
def test_a_formula_is_text_in_a_csv_file(cell):
    assert csv_cell(cell).startswith("'")


@pytest.mark.parametrize("cell", ["rollout", "a-b", -0.5, 1, None])
def test_other_cells_stay_as_they_are(cell):
    assert csv_cell(cell) == cell


def test_a_comparisons_csv_has_no_formulas():
    from attnx import compare

    comparison = compare(zoo.classifier(), zoo.wordpiece_tokenizer(), ["a witty film"], progress=False)
    values = {"=HYPERLINK(1)": comparison.values["gradient"]}
    written = replace(comparison, values=values).to_csv()
    cells = [cell for row in csv.reader(io.StringIO(written)) for cell in row]
    assert "'=HYPERLINK(1)" in cells
    assert not any(cell.startswith("=") for cell in cells)


def test_markdown_in_a_cell_is_shown_and_not_followed():
    table = piped([["", "a|b"], ["[x](javascript:alert(1))", "<img src=x>"]])
    assert table.count("|") == 4 + 3 + 4 - 2 + 1
    assert "\\[x\\](" in table
    assert "\\<img" in table
    assert markdown_text("integrated_gradients of *all*") == "integrated_gradients of \\*all\\*"


def test_no_cell_steers_a_terminal():
    assert "\x1b" not in aligned([["a", OSC], [OSC, "b"]])


def test_json_keeps_its_value_and_steers_no_terminal():
    given = {"label": f"{OSC}\x9b31m\u202e", "text": "naïve 我"}
    line = json_line(json.dumps(given, ensure_ascii=False, indent=1))
    assert json.loads(line) == given
    assert line.isprintable() or set(line) - set("\n") == {one for one in line if one.isprintable()}
    assert "我" in line


def test_a_label_with_an_escape_sequence_is_harmless_in_every_form():
    explanation = explain(zoo.classifier(), zoo.wordpiece_tokenizer(), "a witty film")
    hostile = replace(explanation, prediction=replace(explanation.prediction, label=f"good{OSC}"))
    for shown in (repr(hostile), str(hostile), str(hostile.prediction)):
        assert "\x1b" not in shown
        assert "\x07" not in shown
        assert "good" in shown
