"""Overlap of the k most important positions, for readers who look at the top of a list only."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnx.agreement.spearman import check_fit
from attnx.errors import InputError

Array = np.ndarray[Any, np.dtype[np.float64]]

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
