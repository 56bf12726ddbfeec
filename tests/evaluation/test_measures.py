"""Kendall's tau is scipy's; the overlap of the best is what random tie-breaking gives on average."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from attnx.errors import ChoiceError, InputError
from attnx.statistics import MEASURES, kendall, spearman, top_k

ties = st.lists(st.integers(0, 4), min_size=3, max_size=12)


@given(ties, st.randoms())
def test_kendall_and_spearman_are_scipys_ties_included(values, random):
    one, other = np.array(values, float), np.array(random.sample(values, len(values)), float)
    if np.ptp(one) == 0:
        assert np.isnan(kendall(one, other))
        assert np.isnan(spearman(one, other))
    else:
        assert kendall(one, other) == pytest.approx(stats.kendalltau(one, other).statistic)
        assert spearman(one, other) == pytest.approx(stats.spearmanr(one, other).statistic)


def test_each_row_is_taken_by_itself():
    rows = np.array([[1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 2.0, 1.0], [1.0, 1.0, 1.0, 1.0]])
    reference = np.array([10.0, 20.0, 30.0, 40.0])
    np.testing.assert_allclose(kendall(rows, reference), [1, -1, np.nan])
    np.testing.assert_allclose(top_k(rows, reference, k=2), [1, 0, 0.5])


@given(ties, st.integers(1, 2))
def test_top_k_is_the_mean_over_random_tie_breaks(values, k):
    one, other = np.array(values, float), np.array(values[::-1], float)
    random = np.random.default_rng(0)

    def best(scores):
        return set(np.lexsort((random.random(len(scores)), -scores))[:k].tolist())

    drawn = np.mean([len(best(one) & best(other)) / k for _ in range(800)])
    assert top_k(one, other, k=k) == pytest.approx(drawn, abs=0.1)


def test_top_k_of_all_positions_says_nothing():
    assert np.isnan(top_k(np.arange(5.0), np.arange(5.0), k=5))


def test_unequal_lengths_and_unknown_measures_are_errors():
    with pytest.raises(InputError, match="do not fit a reference of 3 positions"):
        kendall(np.zeros(4), np.zeros(3))
    with pytest.raises(ChoiceError, match=r"measure 'spearmen' is not known; .* did you mean 'spearman'"):
        MEASURES["spearmen"]
