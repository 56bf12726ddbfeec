"""The ranks of scores, from 1 for the lowest."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]


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
    found = np.empty(scores.shape)
    np.put_along_axis(found, order, begins.cumsum(-1) if ties == "dense" else _middle(begins), axis=-1)
    found[np.isnan(scores).any(-1)] = np.nan
    return found


def _middle(begins: np.ndarray[Any, np.dtype[np.bool_]]) -> Array:
    """For each place, counted from 1, the middle of the run of ties that it is in; `begins` says where one does."""
    places = np.arange(begins.shape[-1])
    ends = np.ones_like(begins)
    ends[..., :-1] = begins[..., 1:]
    first = np.maximum.accumulate(np.where(begins, places, 0), axis=-1)
    last = np.minimum.accumulate(np.where(ends, places, len(places))[..., ::-1], axis=-1)[..., ::-1]
    middle: Array = (first + last) / 2 + 1
    return middle
