"""Words are slices of the given text, in any script; tokens find theirs by offset."""

import pytest

from attnx.adapters import Position, Positions, PreparedInput, Span, group_words, word_spans

WORDS = [
    ("It's a well-known 3.5, ok!", ["It's", "a", "well-known", "3.5", ",", "ok", "!"]),
    ("don’t -- stop...", ["don’t", "-", "-", "stop", ".", ".", "."]),
    ("snake_case 1,000 end.", ["snake_case", "1,000", "end", "."]),
    ("नमस्ते दुनिया", ["नमस्ते", "दुनिया"]),
    ("مرحبا بالعالم", ["مرحبا", "بالعالم"]),
    ("我爱你。", ["我", "爱", "你", "。"]),
    ("naïve café", ["naïve", "café"]),
    ("a\n\tb", ["a", "b"]),
    ("👍🏽 ok ❤️! 👨‍👩‍👧", ["👍🏽", "ok", "❤️", "!", "👨‍👩‍👧"]),
    ("   ", []),
]


@pytest.mark.parametrize(("text", "words"), WORDS)
def test_words_of_a_text(text, words):
    assert [text[start:end] for start, end in word_spans(text)] == words


GROUPED = {
    "pieces of a word": (
        "un\u00adaffordable flats",
        [(0, 2), (2, 13), (14, 19)],
        [("un\u00adaffordable", 0, 1), ("flats", 2)],
    ),
    "a space before a piece": ("hello world", [(0, 5), (5, 8), (8, 11)], [("hello", 0), ("world", 1, 2)]),
    "a token wider than a word": (
        "about [MASK] book",
        [(0, 5), (6, 12), (13, 17)],
        [("about", 0), ("[MASK]", 1), ("book", 2)],
    ),
    "a word that occurs twice": ("key to key", [(0, 3), (4, 6), (7, 10)], [("key", 0), ("to", 1), ("key", 2)]),
    "bytes of one character": ("a 👍", [(0, 1), (1, 3), (2, 3), (2, 3)], [("a", 0), ("👍", 1, 2, 3)]),
    "a space alone": ("the  key ", [(0, 3), (3, 5), (5, 8), (8, 9)], [("the", 0), ("key", 1, 2), (" ", 3)]),
    "a line break": ("a\n\nb", [(0, 1), (1, 3), (3, 4)], [("a", 0), ("\n\n", 1), ("b", 2)]),
}


@pytest.mark.parametrize("name", GROUPED)
def test_tokens_are_grouped_into_the_words_of_the_text(name):
    text, spans, expected = GROUPED[name]
    tokens = [Position(index, text[a:b] or "x", start=a, end=b) for index, (a, b) in enumerate(spans)]
    positions, words = group_words(tokens, [text])
    assert [(word.text, *word.positions) for word in words] == expected
    assert all(positions[index].word == word.index for word in words for index in word.positions)


def test_segments_are_apart_and_special_tokens_have_no_word():
    first = [Position(0, "[CLS]", special=True), Position(1, "a", start=0, end=1), Position(2, "[SEP]", special=True)]
    positions, words = group_words([*first, Position(3, "a", start=0, end=1, segment=1)], ["a", "a"])
    assert [(word.text, word.segment, word.positions) for word in words] == [("a", 0, (1,)), ("a", 1, (3,))]
    assert [position.word for position in positions] == [None, 0, None, 1]


def test_without_offsets_each_token_is_a_word():
    positions, words = group_words([Position(0, "[CLS]", special=True), Position(1, "▁he"), Position(2, "y")], ["hey"])
    assert [word.text for word in words] == ["▁he", "y"]
    assert [position.word for position in positions] == [None, 0, 1]


def test_content_is_what_is_no_special_token_also_of_a_part():
    positions = Positions(
        [Position(0, "[CLS]", special=True), Position(1, "keys", start=0, end=4), Position(2, "[SEP]", special=True)]
    )
    assert (positions.content, positions.special) == ([1], [0, 2])
    assert isinstance(positions[1:], Positions)
    assert positions[1:].content == [1]
    assert positions.units(()) == [(1,)]
    assert positions.units([Span("all", (1, 2))]) == [(1, 2)]
    assert positions.has_offsets
    assert not Positions([Position(0, "keys")]).has_offsets


def test_a_plain_tuple_of_positions_becomes_what_knows_its_content():
    positions = (Position(0, "[CLS]", special=True), Position(1, "keys"))
    assert PreparedInput({}, positions, ()).positions.content == [1]
    assert PreparedInput({}, positions, ()).positions == positions
