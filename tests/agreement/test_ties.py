"""Scores tie where they are equal as far as they are exact."""

import numpy as np

from attnx.agreement.ties import rounded, tied_share


def test_beyond_its_digits_a_score_has_no_order():
    scores = np.array([0.1, 0.1 + 1e-12, 0.2])
    assert len(set(rounded(scores, 9))) == 2
    assert len(set(rounded(scores, None))) == 3


def test_ties_are_counted_after_rounding_and_zeros_are_none():
    assert tied_share(np.array([0.1, 0.1 + 1e-12, 0.2, 0.0, 0.0])) == 2 / 3
    assert tied_share(np.array([0.1, 0.1 + 1e-12, 0.2]), None) == 0
    np.testing.assert_array_equal(tied_share(np.array([[1.0, 1.0], [1.0, 2.0], [0.0, 0.0]])), [1, 0, 0])
