from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from examples.training.study import Spread


def test_mean_and_deviation_of_the_sample():
    found = Spread.of([0.4, 0.5, 0.9])
    assert found.mean == pytest.approx(0.6)
    assert found.deviation == pytest.approx(((0.2**2 + 0.1**2 + 0.3**2) / 2) ** 0.5)


def test_intervals_are_students():
    values = [0.4, 0.5, 0.9, 0.55]
    found, error = Spread.of(values), np.std(values, ddof=1)
    assert found.interval == pytest.approx(stats.t.interval(0.95, 3, np.mean(values), error / 2))
    assert found.expected == pytest.approx(stats.t.interval(0.95, 3, np.mean(values), error * 1.25**0.5))


def test_a_prediction_interval_holds_one_more_in_95_of_100():
    random = np.random.default_rng(0)
    drawn = random.normal(size=(2000, 4))
    inside = [low <= one[3] <= high for one in drawn for low, high in [Spread.of(one[:3].tolist()).expected]]
    assert np.mean(inside) == pytest.approx(0.95, abs=0.02)


def test_two_models_give_a_range_and_one_gives_nothing():
    assert Spread.of([0.6, 0.4]).expected == (0.4, 0.6)
    assert Spread.of([0.6, 0.4]).interval is None
    assert Spread.of([0.6]).expected is None
    assert Spread.of([0.6]).deviation is None
    assert Spread.of([0.6]).place(0.6) is None


def test_a_model_without_a_number_is_left_out():
    assert Spread.of([0.5, None]).values == (0.5,)
    assert Spread.of([None]).mean is None


@pytest.mark.parametrize(
    ("published", "place"), [(0.5, "within"), (0.61, "above"), (0.39, "below"), (0.604, "within"), (0.396, "within")]
)
def test_a_printed_number_is_as_exact_as_its_digits(published, place):
    assert Spread.of([0.4, 0.6]).place(published) == place
