"""Paired differences, many at once: which of them are more than chance, corrected for how many were looked at.

Where two explainers are alike, a text is as likely to speak for the one as for the other. So the signs of texts are
flipped, of all differences together, and of every flip the largest statistic counts: a difference that the largest of
all rarely reaches by chance is told apart, however many were compared and however they hang together; the next has to
beat the largest of those that are left (Westfall & Young 1993, the step-down maximum). Nothing is assumed of how
differences spread, and five texts can tell nothing: of their 32 flips 2 are extreme.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from attnx.errors import InputError

Array = np.ndarray[Any, np.dtype[np.float64]]

FLIPS = 9_999
"""Drawn at random where all cannot be tried."""
ALL_UP_TO = 13
"""Texts of which all flips are tried: 8,192."""
LEVEL = 0.05

_AT_ONCE = 1_000
_ROUNDING = 1e-9


def corrected(differences: Array, *, seed: int = 0) -> Array:
    """p of each column of text × comparison: how often the largest of all is as far from zero by flipping signs alone.

    A column of zeros has 1. The same for the same differences and seed.
    """
    values = np.asarray(differences, dtype=np.float64)
    if values.ndim != 2 or not len(values):
        raise InputError(f"differences are text × comparison, found an array of shape {values.shape}")
    size = np.sqrt((values**2).sum(0))  # flips do not change it
    scaled = np.divide(values, size, out=np.zeros_like(values), where=size > 0)
    observed = np.abs(scaled.sum(0))
    order = np.argsort(observed)  # the clearest last
    reached, count = np.zeros(values.shape[1]), 0
    for flips in _flips(len(values), seed):
        # What is clearer was told apart before, and no longer counts among those it could have been.
        largest = np.maximum.accumulate(np.abs(flips @ scaled[:, order]), axis=1)
        reached += (largest >= observed[order] - _ROUNDING).sum(0)
        count += len(flips)
    shares = np.empty_like(observed)
    shares[order] = np.maximum.accumulate((reached / count)[::-1])[::-1]
    return np.where(size > 0, shares, 1.0)


def _flips(texts: int, seed: int) -> list[Array]:
    """Rows of signs, the first of them all +1: every one there is, or many drawn."""
    if texts <= ALL_UP_TO:
        return [np.array(list(product((1.0, -1.0), repeat=texts)))]
    random = np.random.default_rng(seed)
    drawn = [
        random.choice((1.0, -1.0), size=(min(_AT_ONCE, FLIPS - start), texts)) for start in range(0, FLIPS, _AT_ONCE)
    ]
    return [np.ones((1, texts)), *drawn]
