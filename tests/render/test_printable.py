"""Text from the input steers nothing."""

import pytest

from attnx.render.printable import isolated, printable


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
