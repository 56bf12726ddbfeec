"""Scores tie where they are equal as far as they are exact."""

import numpy as np

from attnx.methods import rounded, scores_for_ranking
from attnx.methods.ties import tied_share


def test_beyond_its_digits_a_score_has_no_order():
    scores = np.array([0.1, 0.1 + 1e-12, 0.2])
    assert len(set(rounded(scores, 9))) == 2
    assert len(set(rounded(scores, None))) == 3


def test_ties_are_counted_after_rounding_and_zeros_are_none():
    assert tied_share(np.array([0.1, 0.1 + 1e-12, 0.2, 0.0, 0.0])) == 2 / 3
    assert tied_share(np.array([0.1, 0.1 + 1e-12, 0.2]), None) == 0
    np.testing.assert_array_equal(tied_share(np.array([[1.0, 1.0], [1.0, 2.0], [0.0, 0.0]])), [1, 0, 0])


def test_what_has_no_digits_is_told_apart_by_the_largest_of_its_row():
    tiny = np.array([[3e-11, 1e-11, 2e-11], [3e11, 1e11, 1e11 + 1]])
    assert [len(set(row)) for row in scores_for_ranking(tiny)] == [3, 2]
    assert len(set(scores_for_ranking(tiny[0], 9))) == 1
    assert not scores_for_ranking(np.zeros((2, 3))).any()
    assert scores_for_ranking(np.zeros(0)).shape == (0,)
