"""Scores have as many decimals as mean something."""

import numpy as np
import pytest

from attnx.views import places, written


@pytest.mark.parametrize(
    ("scores", "exact", "decimals"),
    [([0.25, 0.03], None, 3), ([12.3, -840.0], None, 1), ([2e-6, 0], None, 8), ([2e-12, 0], 9, 9), ([0.0], None, 3)],
)
def test_three_figures_of_the_strongest_as_far_as_the_method_is_exact(scores, exact, decimals):
    assert places(scores, exact) == decimals


def test_a_zero_has_no_sign():
    assert written(-0.0004, 3) == "0.000"
    assert written(-0.5, 3) == "-0.500"


def test_a_rounding_changes_no_digits():
    assert places([1.0, 0.5]) == places([np.nextafter(1.0, 0), 0.5]) == 2
