"""Scores of a text while its positions go, the most relevant first, or come back in that order.

One order gives two curves over the share of positions: deletion starts from the whole text and blanks, insertion starts
from nothing and restores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attnx.agreement.ties import told_apart
from attnx.answer.target import Target
from attnx.comparison.chance import Array, Order
from attnx.explaining.call import Call
from attnx.references.case import Case
from attnx.references.variant import Variant
from attnx.results.explanation import Explanation


@dataclass(frozen=True, eq=False)
class Curves:
    """The target's score with the first `counts` positions of an order blanked, and with only these left."""

    counts: tuple[int, ...]
    without: Array
    only: Array

    @property
    def shares(self) -> Array:
        return np.array(self.counts) / self.counts[-1]


def order_of(explanation: Explanation, explainer: str, layer: int | None, random: np.random.Generator) -> Order:
    """Units by falling score. Those that tie are put in random order: their own order means nothing.

    Of a signed explainer what speaks against the answer comes last: it did not make it.
    """
    units, row = explanation.units, explanation.scores(explainer, layer)
    scores = told_apart([row[list(one)].sum() for one in units], explanation.digits.get(explainer))
    return tuple(units[place] for place in np.lexsort((random.random(len(units)), -scores)))


def removed_counts(positions: int, steps: int, shares: Sequence[float]) -> tuple[int, ...]:
    """How many units are gone at each point of a curve: a grid of `steps`, and those that `shares` ask for."""
    grid = {round(step * positions / steps) for step in range(steps + 1)}
    return tuple(sorted(grid | {share_count(share, positions) for share in shares}))


def share_count(share: float, positions: int) -> int:
    """A share of a text in whole positions: rounded up, so that it is never none."""
    return min(positions, max(1, int(np.ceil(share * positions - 1e-9))))


def cases_of(call: Call, explanations: Sequence[Explanation]) -> list[Case]:
    """The inputs of a call with what was explained of them."""
    return [
        Case(request.prepared, Target.of(call.model, one.prediction, one.position))
        for request, one in zip(call.requests, explanations, strict=True)
    ]


def without(number: int, order: Order, counts: Sequence[int]) -> Iterator[Variant]:
    """The text without the first of an order, for each count."""
    for count in counts:
        yield _removed(number, order[:count])


def variants(number: int, order: Order, counts: Sequence[int]) -> Iterator[Variant]:
    """What must be run for the curves of an order: for each count the text without its first, and with only these."""
    for count in counts:
        yield _removed(number, order[:count])
        yield _removed(number, order[count:])


def curves(number: int, order: Order, counts: Sequence[int], scores: Mapping[Variant, float]) -> Curves:
    without = [scores[_removed(number, order[:count])] for count in counts]
    only = [scores[_removed(number, order[count:])] for count in counts]
    return Curves(tuple(counts), np.array(without), np.array(only))


def _removed(number: int, units: Order) -> Variant:
    return Variant(number, tuple(sorted(place for unit in units for place in unit)))
