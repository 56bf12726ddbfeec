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


def tokens(text, *spans, **options):
    return [Position(index, text[a:b] or "x", start=a, end=b, **options) for index, (a, b) in enumerate(spans)]


def test_pieces_of_a_word_are_one_word():
    text = "un\u00adaffordable flats"
    _, words = group_words(tokens(text, (0, 2), (2, 13), (14, 19)), [text])
    assert [(word.text, word.positions) for word in words] == [(text[:13], (0, 1)), ("flats", (2,))]


def test_a_space_before_a_piece_does_not_belong_to_the_word():
    text = "hello world"
    positions, words = group_words(tokens(text, (0, 5), (5, 8), (8, 11)), [text])
    assert [word.text for word in words] == ["hello", "world"]
    assert [one.word for one in positions] == [0, 1, 1]


def test_a_token_wider_than_a_word_makes_the_word_as_wide():
    text = "about [MASK] book"
    _, words = group_words(tokens(text, (0, 5), (6, 12), (13, 17)), [text])
    assert [word.text for word in words] == ["about", "[MASK]", "book"]


def test_a_word_that_occurs_twice_is_two_words():
    text = "key to key"
    _, words = group_words(tokens(text, (0, 3), (4, 6), (7, 10)), [text])
    assert [word.positions for word in words if word.text == "key"] == [(0,), (2,)]


def test_bytes_of_one_character_are_one_word():
    text = "a 👍"
    _, words = group_words(tokens(text, (0, 1), (1, 3), (2, 3), (2, 3)), [text])
    assert [(word.text, word.positions) for word in words] == [("a", (0,)), ("👍", (1, 2, 3))]


def test_a_space_alone_belongs_to_the_word_that_follows():
    text = "the  key "
    _, words = group_words(tokens(text, (0, 3), (3, 5), (5, 8), (8, 9)), [text])
    assert [(word.text, word.positions) for word in words] == [("the", (0,)), ("key", (1, 2)), (" ", (3,))]


def test_a_line_break_is_a_word_by_itself():
    text = "a\n\nb"
    _, words = group_words(tokens(text, (0, 1), (1, 3), (3, 4)), [text])
    assert [word.text for word in words] == ["a", "\n\n", "b"]


def test_segments_are_apart_and_special_tokens_have_no_word():
    first = [
        Position(0, "[CLS]", special=True),
        *(Position(1, "a", start=0, end=1),),
        Position(2, "[SEP]", special=True),
    ]
    second = [Position(3, "a", start=0, end=1, segment=1)]
    positions, words = group_words([*first, *second], ["a", "a"])
    assert [(word.text, word.segment, word.positions) for word in words] == [("a", 0, (1,)), ("a", 1, (3,))]
    assert [one.word for one in positions] == [None, 0, None, 1]


def test_without_offsets_each_token_is_a_word():
    positions, words = group_words([Position(0, "[CLS]", special=True), Position(1, "▁he"), Position(2, "y")], ["hey"])
    assert [word.text for word in words] == ["▁he", "y"]
    assert [one.word for one in positions] == [None, 0, 1]


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
