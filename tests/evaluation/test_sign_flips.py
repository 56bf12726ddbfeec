"""Verdicts over many paired differences: exact where all flips are tried, and corrected for how many there are."""

import numpy as np
import pytest

from attnx.errors import InputError
from attnx.statistics import LEVEL, sign_flips


def p_of(differences, **options):
    return sign_flips(np.asarray(differences), **options).p


def test_one_comparison_of_six_texts_is_the_exact_test():
    assert p_of(np.arange(1.0, 7)[:, None])[0] == pytest.approx(2 / 64)
    assert p_of(np.arange(1.0, 6)[:, None])[0] == pytest.approx(2 / 32)  # five cannot tell, whatever they are


def test_both_sides_count():
    values = np.random.default_rng(0).normal(0.5, 1, (20, 3))
    np.testing.assert_allclose(p_of(values), p_of(-values))


def test_no_difference_is_never_told_apart():
    assert p_of(np.zeros((9, 2))).tolist() == [1, 1]


def test_by_chance_alone_something_is_told_apart_in_one_of_twenty_at_most():
    random = np.random.default_rng(1)
    false_alarms = [(p_of(random.standard_t(3, (12, 8))) <= LEVEL).any() for _ in range(200)]
    assert np.mean(false_alarms) < 0.05 + 2 * np.sqrt(0.05 * 0.95 / 200)


def test_copies_of_one_comparison_cost_nothing():
    one = np.random.default_rng(2).normal(0.6, 1, (12, 1))
    assert p_of(np.repeat(one, 50, axis=1))[0] == p_of(one)[0]
    others = np.random.default_rng(3).normal(0, 1, (12, 50))
    assert p_of(np.hstack([one, others]))[0] > p_of(one)[0]


def test_a_clearer_difference_never_has_the_larger_share():
    values = np.random.default_rng(4).normal(np.linspace(0, 2, 6), 1, (30, 6))
    size = np.abs(values.sum(0)) / np.sqrt((values**2).sum(0))
    shares = p_of(values)
    assert (np.diff(shares[np.argsort(size)]) <= 0).all()
    assert shares[-1] < 0.001


def test_drawn_flips_are_the_same_for_the_same_seed_and_near_all_of_them():
    values = np.random.default_rng(5).normal(0.4, 1, (14, 3))
    np.testing.assert_array_equal(p_of(values, seed=7), p_of(values, seed=7))
    np.testing.assert_allclose(p_of(values, seed=7), p_of(values, seed=8), atol=0.02)


def test_differences_are_text_by_comparison():
    with pytest.raises(InputError, match="differences are text × comparison"):
        p_of(np.ones(4))


@pytest.mark.parametrize("texts", [6, 9, 13, 30])
def test_the_corrected_interval_excludes_zero_exactly_where_p_is_small(texts):
    random = np.random.default_rng(texts)
    for _ in range(20):
        values = random.normal(random.uniform(-1, 1, 5), 1, (texts, 5))
        test = sign_flips(values)
        assert (np.abs(values.mean(0)) > test.half_width + 1e-12).tolist() == (test.p <= LEVEL).tolist()


def test_an_interval_of_equal_differences_has_no_width():
    assert sign_flips(np.full((12, 1), 0.5)).half_width[0] == pytest.approx(0)


def test_the_interval_of_one_comparison_is_near_that_of_student():
    values = np.random.default_rng(6).normal(0.3, 1, (200, 1))
    assert sign_flips(values).half_width[0] == pytest.approx(1.97 * values.std(ddof=1) / 200**0.5, rel=0.05)


def test_the_more_is_compared_the_wider_is_each_interval():
    values = np.random.default_rng(7).normal(0, 1, (12, 20))
    assert sign_flips(values).half_width[0] > sign_flips(values[:, :1]).half_width[0]
