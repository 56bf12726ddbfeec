from __future__ import annotations

import pytest

from examples.training.verb_number import Recipe, learning_rate


def test_learning_rate_rises_then_falls():
    recipe = Recipe(warmup_steps=10, learning_rate=1.0)
    rates = [learning_rate(recipe, step, 100) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == rates[9]
    assert rates[9:] == sorted(rates[9:], reverse=True)
    assert 0.02 < rates[-1] < 0.021
