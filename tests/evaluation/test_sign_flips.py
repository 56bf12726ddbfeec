"""Verdicts over many paired differences: exact where all flips are tried, and corrected for how many there are."""

import numpy as np
import pytest

from attnx.errors import InputError
from attnx.statistics import LEVEL, corrected


def test_one_comparison_of_six_texts_is_the_exact_test():
    assert corrected(np.arange(1.0, 7)[:, None])[0] == pytest.approx(2 / 64)
    assert corrected(np.arange(1.0, 6)[:, None])[0] == pytest.approx(2 / 32)  # five cannot tell, whatever they are


def test_both_sides_count():
    values = np.random.default_rng(0).normal(0.5, 1, (20, 3))
    np.testing.assert_allclose(corrected(values), corrected(-values))


def test_no_difference_is_never_told_apart():
    assert corrected(np.zeros((9, 2))).tolist() == [1, 1]


def test_by_chance_alone_something_is_told_apart_in_one_of_twenty_at_most():
    random = np.random.default_rng(1)
    false_alarms = [(corrected(random.standard_t(3, (12, 8))) <= LEVEL).any() for _ in range(200)]
    assert np.mean(false_alarms) < 0.05 + 2 * np.sqrt(0.05 * 0.95 / 200)


def test_copies_of_one_comparison_cost_nothing():
    one = np.random.default_rng(2).normal(0.6, 1, (12, 1))
    assert corrected(np.repeat(one, 50, axis=1))[0] == corrected(one)[0]
    others = np.random.default_rng(3).normal(0, 1, (12, 50))
    assert corrected(np.hstack([one, others]))[0] > corrected(one)[0]


def test_a_clearer_difference_never_has_the_larger_share():
    values = np.random.default_rng(4).normal(np.linspace(0, 2, 6), 1, (30, 6))
    size = np.abs(values.sum(0)) / np.sqrt((values**2).sum(0))
    shares = corrected(values)
    assert (np.diff(shares[np.argsort(size)]) <= 0).all()
    assert shares[-1] < 0.001


def test_drawn_flips_are_the_same_for_the_same_seed_and_near_all_of_them():
    values = np.random.default_rng(5).normal(0.4, 1, (14, 3))
    np.testing.assert_array_equal(corrected(values, seed=7), corrected(values, seed=7))
    np.testing.assert_allclose(corrected(values, seed=7), corrected(values, seed=8), atol=0.02)


def test_differences_are_text_by_comparison():
    with pytest.raises(InputError, match="differences are text × comparison"):
        corrected(np.ones(4))
