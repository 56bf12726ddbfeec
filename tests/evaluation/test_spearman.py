"""Correlation of ranks: scipy's where it is right, the authors' where their numbers are to be met."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from attnx.errors import InputError
from attnx.statistics import dense_rank_correlation, spearman

few_values = st.lists(st.integers(0, 5), min_size=3, max_size=12)


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_it_equals_scipy_ties_and_all(data):
    scores = np.array(data.draw(few_values), float)
    reference = np.array(data.draw(st.lists(st.integers(0, 5), min_size=len(scores), max_size=len(scores))), float)
    if len(set(scores)) == 1 or len(set(reference)) == 1:
        assert np.isnan(spearman(scores, reference))
    else:
        assert float(spearman(scores, reference)) == pytest.approx(stats.spearmanr(scores, reference)[0], abs=1e-12)


def test_every_row_has_its_own_correlation():
    scores = np.random.default_rng(0).random((2, 3, 8))
    reference = np.arange(8.0)
    found = spearman(scores, reference)
    assert found.shape == (2, 3)
    assert found[1, 2] == pytest.approx(stats.spearmanr(scores[1, 2], reference)[0])


@pytest.mark.parametrize("length", [0, 1])
@pytest.mark.parametrize("correlation", [spearman, dense_rank_correlation])
def test_fewer_than_two_positions_have_no_correlation(correlation, length):
    assert np.isnan(correlation(np.ones((2, length)), np.ones(length))).all()


@pytest.mark.parametrize(
    ("scores", "reference", "expected"),
    [
        ([1, 2, 3, 4], [10, 20, 30, 40], 1.0),
        ([4, 3, 2, 1], [10, 20, 30, 40], -1.0),
        # dense ranks 1 2 2 3 against 1 2 3 4: d = 0 0 1 1, 1 − 6·2/60
        ([1, 2, 2, 3], [1, 2, 3, 4], 0.8),
        # a constant is all rank 1 against 1 2 3: d = 0 1 2, 1 − 6·5/24
        ([7, 7, 7], [1, 2, 3], -0.25),
        # ties in both that agree: no difference at all
        ([5, 5, 9], [1, 1, 2], 1.0),
    ],
)
def test_the_published_formula_by_hand(scores, reference, expected):
    found = dense_rank_correlation(np.array(scores, float), np.array(reference, float))
    assert float(found) == pytest.approx(expected)


@settings(deadline=None)
@given(st.permutations(range(9)))
def test_without_ties_the_two_are_the_same(order):
    scores, reference = np.array(order, float), np.arange(9.0)
    assert float(spearman(scores, reference)) == pytest.approx(float(dense_rank_correlation(scores, reference)))


def test_lists_of_different_length_are_an_error():
    with pytest.raises(InputError, match="do not fit a reference of 3 positions"):
        spearman(np.ones((2, 4)), np.ones(3))
