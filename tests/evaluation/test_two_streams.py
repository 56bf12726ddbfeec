"""Words between spaces, and scores of tokens made scores of words."""

import numpy as np

from attnx.adapters import Position, Positions
from attnx.word_alignment.align import by_word, spaced


def test_words_are_what_stands_between_spaces_whatever_the_tokenizer_makes_of_them():
    text = "don't  stop, now"
    pieces = [(0, 3), (3, 5), (5, 11), (11, 12), (12, 16)]  # don | 't | ␣␣stop | , | ␣now
    positions = [Position(place, "x", start=start, end=end) for place, (start, end) in enumerate(pieces)]
    positions.append(Position(5, "</s>", special=True))
    assert spaced(Positions(positions), text) == [("don't", [0, 1]), ("stop,", [2, 3]), ("now", [4])]


def test_the_same_word_twice_is_two_words():
    positions = [Position(0, "the", start=0, end=3), Position(1, "the", start=4, end=7)]
    assert spaced(Positions(positions), "the the") == [("the", [0]), ("the", [1])]


def test_source_pieces_are_added_up_and_target_pieces_averaged():
    scores = np.array([[0.1, 0.2, 0.3, 0.4], [0.3, 0.2, 0.5, 0.0], [0.0, 0.0, 0.9, 0.1]])
    found = by_word(scores, [[0, 1], [2]], [[0, 1], [2]])
    np.testing.assert_allclose(found, [[0.4, 0.4, 0.2], [0.0, 0.9, 0.1]])


def test_a_written_word_without_tokens_has_no_scores():
    np.testing.assert_array_equal(by_word(np.ones((1, 2)), [[0], [1]], [[], [0]]), [[0, 0, 0], [1, 1, 0]])
