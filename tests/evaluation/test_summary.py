"""Intervals and summaries of a mean."""

import numpy as np
import pytest

from attnx.errors import InputError
from attnx.statistics import Summary, bootstrap_interval


def test_the_same_seed_gives_the_same_interval():
    values = np.random.default_rng(0).random(50)
    assert bootstrap_interval(values, seed=4) == bootstrap_interval(values, seed=4)
    assert bootstrap_interval(values, seed=4) != bootstrap_interval(values, seed=5)


def test_it_is_the_normal_interval_where_that_holds():
    values = np.random.default_rng(1).normal(3, 2, 1000)
    low, high = bootstrap_interval(values)
    half = 1.96 * values.std() / np.sqrt(len(values))
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.015)


def test_it_covers_the_true_mean_as_often_as_it_says():
    random = np.random.default_rng(2)
    intervals = [bootstrap_interval(random.exponential(1, 60), resamples=400, seed=i) for i in range(300)]
    covered = sum(low <= 1 <= high for low, high in intervals) / 300
    assert 0.88 <= covered <= 0.98


def test_a_constant_has_no_width():
    assert bootstrap_interval(np.full(7, 0.25)) == (0.25, 0.25)


@pytest.mark.parametrize(("values", "level"), [([], 0.95), ([1.0], 1.0)])
def test_nothing_to_draw_from_is_an_error(values, level):
    with pytest.raises(InputError):
        bootstrap_interval(np.array(values), level=level)


def test_undefined_examples_are_counted_and_left_out():
    summary = Summary.of(np.array([0.5, np.nan, 1.0]))
    assert (summary.mean, summary.deviation, summary.count, summary.undefined) == (0.75, 0.25, 2, 1)


def test_or_counted_as_zero_when_told_so():
    summary = Summary.of(np.array([0.5, np.nan, 1.0]), undefined="zero")
    assert (summary.mean, summary.count, summary.undefined) == (0.5, 3, 1)


def test_nothing_defined_is_no_number_rather_than_nan():
    assert Summary.of(np.array([np.nan])) == Summary(None, None, None, None, 0, 1)
