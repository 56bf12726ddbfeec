"""Scores that are equal as far as they are exact: their order is an accident, and means nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]

SCORE_DECIMALS = 9
"""Decimals to which scores are told apart, where a method does not say otherwise; flow is exact to so many."""


def rounded(scores: Any, digits: int | None = SCORE_DECIMALS) -> Array:
    """Scores as they may be ranked: to the digits to which they are exact, or as they are for None."""
    values: Array = np.asarray(scores, dtype=np.float64)
    return values if digits is None else values.round(digits)


def scores_for_ranking(scores: Any, digits: int | None = None) -> Array:
    """Scores in which ties are equal, for ranking alone: to the digits to which a method is exact, and without any to
    9 digits of the largest in the row, for what is measured on a model has no scale of its own.

    >>> scores_for_ranking([2e-12, 1e-12, 1e-12 + 1e-24]).tolist()
    [1.0, 0.5, 0.5]
    """
    values = rounded(scores, digits)
    if digits is not None:
        return values
    most = np.abs(values).max(axis=-1, keepdims=True, initial=0.0)
    shares: Array = np.divide(values, most, out=np.zeros_like(values), where=most > 0)
    return shares.round(SCORE_DECIMALS)


def tied_share(scores: Any, digits: int | None = SCORE_DECIMALS) -> Any:
    """The share of positions with the same score as another, of those that have any: a number for a row, an array for
    scores with more axes. What cannot be reached at all, as later tokens in a decoder, ties with nothing.

    >>> tied_share(np.array([1.0, 1.0, 0.5, 0.25]))
    0.5
    """
    rows = rounded(scores, digits)
    return _tied(rows) if rows.ndim == 1 else np.apply_along_axis(_tied, -1, rows)


def _tied(row: Array) -> float:
    _, counts = np.unique(row[row != 0], return_counts=True)
    return float(counts[counts > 1].sum() / max(counts.sum(), 1))
