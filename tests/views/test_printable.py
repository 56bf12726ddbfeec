"""Text from the input steers nothing."""

import pytest

import attnx
from attnx.targets import Prediction
from attnx.views import printable
from attnx.views.escaping import isolated
from tests import zoo


@pytest.mark.parametrize("steering", ["\x1b", "\x9b", "\r", "\x07", "\u202e", "\u2066", "\u2028", "\ufeff", "\ud800"])
def test_steering_characters_are_replaced(steering):
    assert printable(f"a{steering}b") == "a�b"


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
    assert "⏎" in [one.get_text() for one in e.plot_graph("raw").get_yticklabels()]
    assert str(Prediction("token", "\n", 0, 0.5, ("\n",), (1.0,))) == "⏎ (0.500)"
    shown = (e.verdict, str(e), e.to_markdown(), attnx.explain(model, tokenizer, "a", target="\n").verdict)
    assert not any(symbol in text for text in shown for symbol in ("Ċ", r"\n"))
