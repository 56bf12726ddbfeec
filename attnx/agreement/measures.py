"""Kendall's rank correlation: of all pairs of positions, how many more are in the same order than in the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnx.agreement.spearman import check_fit
from attnx.errors import InputError

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
    from scipy.stats import kendalltau  # takes longer to load than most explanations to compute

    def tau(row: Array) -> float:
        return float(kendalltau(row, reference).statistic) if np.ptp(row) > 0 else np.nan

    return np.asarray(np.apply_along_axis(tau, -1, scores))


TOP = 5


def top_k(scores: Array, reference: Array, k: int = TOP) -> Array:
    """The share of the k best of `reference` that are among the k best of each row of `scores[…, position]`.

    Where positions tie at the edge of the best, it is the share to expect if the ties were broken at random. NaN where
    there are no more than k positions: any order would do.

    >>> top_k(np.array([0.1, 0.2, 0.7, 0.0]), np.array([3.0, 9.0, 5.0, 1.0]), k=2)
    array(1.)
    """
    check_fit(scores, reference)
    if k < 1:
        raise InputError(f"k must be at least 1, found {k}")
    if len(reference) <= k:
        return np.full(scores.shape[:-1], np.nan)
    return np.asarray((_membership(scores, k) * _membership(reference, k)).sum(-1) / k)


def _membership(scores: Array, k: int) -> Array:
    """For each position the chance to be among the k best: 1, 0, or between for those that tie at the edge."""
    edge = -np.partition(-scores, k - 1, axis=-1)[..., k - 1 : k]
    above, at = scores > edge, scores == edge
    left = k - above.sum(-1, keepdims=True)
    chance: Array = above + at * (left / at.sum(-1, keepdims=True))
    return chance
