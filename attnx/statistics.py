"""Agreement where scores may say for or against: with their signs only where both of the two have one.

What has no sign knows how much, not which way. Beside it a sign is no disagreement, so the two are compared by size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from attnx.errors import InputError
from attnx.registry import Registry

Array = np.ndarray[Any, np.dtype[np.float64]]

FLIPS = 9_999
"""Drawn at random where all cannot be tried."""
ALL_UP_TO = 13
"""Texts of which all flips are tried: 8,192."""
LEVEL = 0.05

_AT_ONCE = 1_000
_ROUNDING = 1e-9


class SignFlips(NamedTuple):
    """The test of several paired differences at once."""

    p: Array
    """Of each column, corrected for the number of columns (step-down max-T)."""
    half_width: Array
    """Of the 95 % interval around the mean of each column, corrected alike: it excludes 0 where p is at most 0.05.
    Infinite where there are too few texts for any interval."""


def sign_flips(differences: Array, *, seed: int = 0) -> SignFlips:
    """Test each column of text × comparison against zero: how often is the largest as far by flipping signs alone?

    A column of zeros has p = 1. The result is the same for the same differences and seed.
    """
    values = np.asarray(differences, dtype=np.float64)
    if values.ndim != 2 or not len(values):
        raise InputError(f"differences are text × comparison, found an array of shape {values.shape}")
    count = len(values)
    size = np.sqrt((values**2).sum(0))  # flips do not change it
    scaled = np.divide(values, size, out=np.zeros_like(values), where=size > 0)
    observed = np.abs(scaled.sum(0))
    order = np.argsort(observed)  # the clearest last
    # What is clearer was rejected before, and is no longer among those that the largest is taken of.
    largest = np.concatenate(
        [np.maximum.accumulate(np.abs(flips @ scaled[:, order]), axis=1) for flips in _flips(count, seed)]
    )
    reached = (largest >= observed[order] - _ROUNDING).mean(0)
    shares, critical = np.empty_like(observed), np.empty_like(observed)
    shares[order] = np.maximum.accumulate(reached[::-1])[::-1]
    shares = np.where(size > 0, shares, 1.0)
    # The largest statistic that is not significant, and so the interval of all means that would not be rejected.
    critical[order] = np.quantile(largest, 1 - LEVEL, axis=0, method="inverted_cdf")
    critical = np.where(shares > LEVEL, np.maximum(critical, observed), np.minimum(critical, observed - _ROUNDING))
    spread = np.sqrt(((values - values.mean(0)) ** 2).sum(0))
    room = count**2 - critical**2 * count
    infinite = np.full_like(room, np.inf)
    width = np.divide(critical * spread, np.sqrt(np.maximum(room, 0)), out=infinite, where=room > _ROUNDING)
    return SignFlips(shares, width)


def _flips(texts: int, seed: int) -> list[Array]:
    """Rows of signs, the first of them all +1: every one there is, or many drawn."""
    if texts <= ALL_UP_TO:
        return [np.array(list(product((1.0, -1.0), repeat=texts)))]
    random = np.random.default_rng(seed)
    drawn = [
        random.choice((1.0, -1.0), size=(min(_AT_ONCE, FLIPS - start), texts)) for start in range(0, FLIPS, _AT_ONCE)
    ]
    return [np.ones((1, texts)), *drawn]


if TYPE_CHECKING:
    Measure: TypeAlias = Callable[[Array, Array], Array]
    """(scores[…, position], reference[position]) → a number for each row, NaN where it is undefined."""

MEASURES: Registry[Measure] = Registry(
    "measure",
    built_in={
        "spearman": "attnx.statistics:spearman",
        "kendall": "attnx.statistics:kendall",
        "top_k": "attnx.statistics:top_k",
    },
)


def ranks(scores: Array, ties: Literal["average", "dense"]) -> Array:
    """The rank of each of `scores[…, position]` within its row. What ties has the average of its places, or one number.

    They are those of scipy's `rankdata`, which takes longer to load than most explanations to compute.

    A row with NaN in it has no ranks: all of them are NaN.

    >>> ranks(np.array([0.1, 0.7, 0.1, 0.9]), "average")
    array([1.5, 3. , 1.5, 4. ])
    >>> ranks(np.array([0.1, 0.7, 0.1, 0.9]), "dense")
    array([1., 2., 1., 3.])
    """
    scores = np.asarray(scores)
    order = np.argsort(scores, axis=-1, kind="stable")
    ordered = np.take_along_axis(scores, order, axis=-1)
    begins = np.ones(scores.shape, dtype=bool)
    begins[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    array = np.empty(scores.shape)
    np.put_along_axis(array, order, begins.cumsum(-1) if ties == "dense" else _middle(begins), axis=-1)
    array[np.isnan(scores).any(-1)] = np.nan
    return array


def _middle(begins: np.ndarray[Any, np.dtype[np.bool_]]) -> Array:
    """For each place, counted from 1, the middle of the run of ties that it is in; `begins` says where one does."""
    places = np.arange(begins.shape[-1])
    ends = np.ones_like(begins)
    ends[..., :-1] = begins[..., 1:]
    first = np.maximum.accumulate(np.where(begins, places, 0), axis=-1)
    last = np.minimum.accumulate(np.where(ends, places, len(places))[..., ::-1], axis=-1)[..., ::-1]
    middle: Array = (first + last) / 2 + 1
    return middle


def spearman(scores: Array, reference: Array) -> Array:
    """The correlation of each row of `scores[…, position]` with `reference[position]`, as scipy has it.

    NaN where it is undefined: one of the two is constant, or there are fewer than two positions.

    >>> spearman(np.array([[0.1, 0.2, 0.7], [1.0, 1.0, 1.0]]), np.array([3.0, 5.0, 9.0]))
    array([ 1., nan])
    """
    ranks, wanted = _ranks(scores, reference, "average")
    array, other = ranks - _mean(ranks), wanted - _mean(wanted)
    length = np.sqrt((array**2).sum(-1) * (other**2).sum(-1))
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation: Array = np.where(length > 0, (array * other).sum(-1) / length, np.nan)
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
    return ranks(scores, ties), ranks(reference, ties)


def _mean(ranks: Array) -> Array:
    mean: Array = ranks.sum(-1, keepdims=True) / max(ranks.shape[-1], 1)
    return mean


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


RESAMPLES = 2000
_VALUES_AT_ONCE = 4_000_000


def bootstrap_interval(
    values: Array, *, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float]:
    """The percentile interval of the mean of `values`: the same for the same values and seed."""
    if len(values) == 0:
        raise InputError("an interval needs at least one value")
    if not 0 < level < 1:
        raise InputError(f"the level of an interval lies between 0 and 1, found {level}")
    if seed < 0:
        raise InputError(f"a seed is a whole number from 0, found {seed}")
    random = np.random.default_rng(seed)
    means = np.empty(resamples)
    step = max(1, _VALUES_AT_ONCE // len(values))
    for start in range(0, resamples, step):
        drawn = random.integers(len(values), size=(min(step, resamples - start), len(values)), dtype=np.int32)
        means[start : start + step] = values[drawn].mean(-1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


Undefined = Literal["left out", "zero"]


@dataclass(frozen=True)
class Summary:
    """Mean and population standard deviation over `count` examples, with the 95 % interval of the mean."""

    mean: float | None
    """None when no example has a number."""
    deviation: float | None
    low: float | None
    high: float | None
    count: int
    undefined: int
    """Examples without a number: left out of the mean, or counted as zero where `of` was told so."""

    @classmethod
    def of(cls, values: Array, *, undefined: Undefined = "left out", seed: int = 0) -> Summary:
        """The summary of one number for each example, NaN where it is undefined."""
        missing = np.isnan(values)
        kept = np.where(missing, 0.0, values) if undefined == "zero" else values[~missing]
        if len(kept) == 0:
            return cls(None, None, None, None, 0, int(missing.sum()))
        low, high = bootstrap_interval(kept, seed=seed)
        return cls(float(kept.mean()), float(kept.std()), low, high, len(kept), int(missing.sum()))


def agree(measure: Callable[[Array, Array], Array], own: Array, other: Array, *, both_signed: bool) -> Array:
    """`measure` of each row of `own[…, position]` with `other[position]`, NaN where it is undefined.

    >>> from attnx.statistics import spearman
    >>> own, other = np.array([-3.0, 1.0, 2.0]), np.array([3.0, 1.0, 2.0])
    >>> agree(spearman, own, other, both_signed=False), agree(spearman, own, other, both_signed=True)
    (array(1.), array(-0.5))
    """
    return measure(own, other) if both_signed else measure(np.abs(own), np.abs(other))
