"""Kendall's rank correlation: of all pairs of positions, how many more are in the same order than in the other."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import kendalltau

from attnx.agreement.spearman import check_fit

Array = np.ndarray[Any, np.dtype[np.float64]]


def kendall(scores: Array, reference: Array) -> Array:
    """Kendall's tau-b of each row of `scores[…, position]` with `reference[position]`, as scipy has it.

    NaN where it is undefined: one of the two is constant, or there are fewer than two positions.

    >>> kendall(np.array([0.1, 0.2, 0.7]), np.array([3.0, 9.0, 5.0])).round(3)
    array(0.333)
    """
    check_fit(scores, reference)
    if len(reference) < 2 or np.ptp(reference) == 0:
        return np.full(scores.shape[:-1], np.nan)

    def tau(row: Array) -> float:
        return float(kendalltau(row, reference).statistic) if np.ptp(row) > 0 else np.nan

    return np.asarray(np.apply_along_axis(tau, -1, scores))
