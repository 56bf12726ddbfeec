"""Text from the input stays text: in terminals, CSV, Markdown and JSON, and on one line."""

import csv
import io
import json
from dataclasses import replace

import pytest

import attnx
from attnx.targets import Prediction
from attnx.views import aligned, json_line, printable
from attnx.views.escaping import csv_cell, isolated, markdown_text
from attnx.views.table import piped
from tests import zoo

OSC = "\x1b]0;owned\x07"


@pytest.mark.parametrize("control", ["\x1b", "\x9b", "\r", "\x07", "\u202e", "\u2066", "\u2028", "\ufeff", "\ud800"])
def test_control_characters_are_replaced(control):
    assert printable(f"a{control}b") == "a�b"


def test_a_line_break_is_seen():
    assert printable("a\nb") == "a⏎b"


@pytest.mark.parametrize("word", ["naïve", "👩\u200d👩\u200d👧", "می\u200cخواهم", "我", "é", "a b", "⚠\ufe0f"])
def test_words_of_all_scripts_stay_as_they_are(word):
    assert printable(word) == word


def test_only_words_from_right_to_left_are_isolated():
    assert isolated("שלום") == "\u2068שלום\u2069"
    assert isolated("key") == "key"


def test_a_line_break_has_one_symbol_in_every_view():
    model, tokenizer = zoo.causal_lm(), zoo.bytelevel_tokenizer()
    e = attnx.explain(model, tokenizer, "the key\n", all_queries=True)
    assert tokenizer.tokenize("\n") == ["Ċ"]
    assert e.explained == "⏎"
    assert " from '⏎' by " in e.verdict
    assert "\n⏎ " in str(e)
    for ticks in (
        e.plot(by="token").get_yticklabels(),
        e.plot_layers("raw").get_xticklabels(),
        attnx.explain_generation(model, tokenizer, "a\n", continuation="\n", methods="raw").plot().get_xticklabels(),
    ):
        assert ticks[-1].get_text() == "⏎"
    assert "⏎" in [tick.get_text() for tick in e.plot_graph("raw").get_yticklabels()]
    assert str(Prediction("token", "\n", 0, 0.5, ("\n",), (1.0,))) == "⏎ (0.500)"
    shown = (e.verdict, str(e), e.to_markdown(), attnx.explain(model, tokenizer, "a", target="\n").verdict)
    assert not any(symbol in text for text in shown for symbol in ("Ċ", r"\n"))


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", " =1"])
def test_a_formula_is_text_in_a_csv_file(cell):
    assert csv_cell(cell).startswith("'")


@pytest.mark.parametrize("cell", ["rollout", "a-b", -0.5, 1, None])
def test_other_cells_stay_as_they_are(cell):
    assert csv_cell(cell) == cell


def test_a_comparisons_csv_has_no_formulas():
    comparison = attnx.compare(zoo.classifier(), zoo.wordpiece_tokenizer(), ["a witty film"], progress=False)
    values = {"=HYPERLINK(1)": next(iter(comparison.values.values()))}
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
    value = {"label": f"{OSC}\x9b31m\u202e", "text": "naïve 我"}
    line = json_line(json.dumps(value, ensure_ascii=False, indent=1))
    assert json.loads(line) == value
    assert line.isprintable() or set(line) - set("\n") == {char for char in line if char.isprintable()}
    assert "我" in line


def test_a_label_with_an_escape_sequence_is_harmless_in_every_form():
    explanation = attnx.explain(zoo.classifier(), zoo.wordpiece_tokenizer(), "a witty film")
    hostile = replace(explanation, prediction=replace(explanation.prediction, label=f"good{OSC}"))
    for shown in (repr(hostile), str(hostile), str(hostile.prediction)):
        assert "\x1b" not in shown
        assert "\x07" not in shown
        assert "good" in shown
