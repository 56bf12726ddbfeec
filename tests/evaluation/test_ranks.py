"""Ranks are scipy's, to the last bit."""

import numpy as np
import pytest
from scipy.stats import rankdata

from attnx.statistics import ranks


@pytest.mark.parametrize("ties", ["average", "dense"])
@pytest.mark.parametrize("shape", [(1,), (7,), (5, 1), (4, 9), (2, 3, 40)])
def test_ranks_are_those_of_scipy(ties, shape):
    draw = np.random.default_rng(sum(shape))
    for scores in (draw.normal(size=shape), draw.integers(0, 4, shape).astype(float), np.zeros(shape)):
        assert np.array_equal(ranks(scores, ties), rankdata(scores, method=ties, axis=-1))


@pytest.mark.parametrize("ties", ["average", "dense"])
def test_a_row_with_nan_has_no_ranks_and_its_neighbours_have(ties):
    scores = np.array([[2.0, np.nan, 1.0], [0.5, 0.5, np.inf]])
    assert np.array_equal(ranks(scores, ties), rankdata(scores, method=ties, axis=-1), equal_nan=True)
