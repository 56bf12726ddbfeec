"""How high a score puts what is right: reciprocal ranks, and orders that know nothing of the input.

What ties counts as in random order: its expected value is taken. Chance is the same arithmetic on scores that all tie.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import comb

import numpy as np

from attnx.agreement.ties import DIGITS
from attnx.results.truth import CHANCE


def reciprocal_rank(scores: Sequence[float], right: Collection[int], digits: int = DIGITS) -> float:
    """1 / rank of the first unit that is right, the highest score first.

    >>> reciprocal_rank([3.0, 1.0, 1.0], [1])
    0.41666666666666663
    """
    above, level, among = _standing(scores, right, digits)
    return sum(share / (above + place) for place, share in _first_places(level, among))


def is_first(scores: Sequence[float], right: Collection[int], digits: int = DIGITS) -> float:
    """1 where what is right has the highest score, its share of it where several have.

    >>> is_first([3.0, 3.0, 1.0], [1])
    0.5
    """
    above, level, among = _standing(scores, right, digits)
    return among / level if above == 0 else 0.0


def fixed_orders(units: int) -> Mapping[str, Sequence[float]]:
    """Orders that know nothing of the input, as scores."""
    forward = [float(-place) for place in range(units)]
    second = [0.5 if place == 1 else -place for place in range(units)]
    return {CHANCE: [0.0] * units, "(first)": forward, "(last)": forward[::-1], "(second)": second}


def _standing(scores: Sequence[float], right: Collection[int], digits: int) -> tuple[int, int, int]:
    """How many units stand above the best right one, how many level with it, and how many of these are right."""
    rounded = np.round(np.asarray(scores, dtype=np.float64), digits)
    chosen = rounded[list(right)]
    best = chosen.max()
    return int((rounded > best).sum()), int((rounded == best).sum()), int((chosen == best).sum())


def _first_places(level: int, among: int) -> list[tuple[int, float]]:
    """Each place, from 1, at which the first of `among` may stand in a random order of `level`, and how likely."""
    every = comb(level, among)
    return [(place, comb(level - place, among - 1) / every) for place in range(1, level - among + 2)]
