"""Spearman's rank correlation, and the formula that the paper's numbers were made with.

The two agree where nothing ties. Where scores tie, Spearman's ranks are averages, and the correlation is Pearson's of
the ranks; the authors' code takes dense ranks (1, 2, 2, 3) and a formula that holds for ranks without ties.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from attnx.agreement.ranks import ranks as ranked
from attnx.errors import InputError

Array = np.ndarray[Any, np.dtype[np.float64]]


def spearman(scores: Array, reference: Array) -> Array:
    """The correlation of each row of `scores[…, position]` with `reference[position]`, as scipy has it.

    NaN where it is undefined: one of the two is constant, or there are fewer than two positions.

    >>> spearman(np.array([[0.1, 0.2, 0.7], [1.0, 1.0, 1.0]]), np.array([3.0, 5.0, 9.0]))
    array([ 1., nan])
    """
    ranks, wanted = _ranks(scores, reference, "average")
    one, other = ranks - _mean(ranks), wanted - _mean(wanted)
    length = np.sqrt((one**2).sum(-1) * (other**2).sum(-1))
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation: Array = np.where(length > 0, (one * other).sum(-1) / length, np.nan)
    return correlation.clip(-1, 1)


def dense_rank_correlation(scores: Array, reference: Array) -> Array:
    """The authors' formula, 1 − 6·Σd² / (n·(n² − 1)) with d the difference of dense ranks. NaN where n < 2.

    A constant row is all rank 1, which this formula takes for an opinion like any other.

    >>> dense_rank_correlation(np.array([1.0, 2.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0, 4.0]))
    array(0.8)
    """
    ranks, wanted = _ranks(scores, reference, "dense")
    count = reference.shape[-1]
    if count < 2:
        return np.full(np.shape(scores)[:-1], np.nan)
    return np.asarray(1 - 6 * ((ranks - wanted) ** 2).sum(-1) / (count * (count**2 - 1)))


def check_fit(scores: Array, reference: Array) -> None:
    if reference.ndim != 1 or np.shape(scores)[-1] != len(reference):
        raise InputError(f"scores of shape {np.shape(scores)} do not fit a reference of {len(reference)} positions")


def _ranks(scores: Array, reference: Array, ties: Literal["average", "dense"]) -> tuple[Array, Array]:
    check_fit(scores, reference)
    if len(reference) == 0:
        return np.zeros(np.shape(scores)), np.zeros(0)
    return ranked(scores, ties), ranked(reference, ties)


def _mean(ranks: Array) -> Array:
    mean: Array = ranks.sum(-1, keepdims=True) / max(ranks.shape[-1], 1)
    return mean
