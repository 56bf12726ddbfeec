"""One row of an explanation, a method at a layer or a reference, with all that bears on how far to trust it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from attnx.agreement.by_sign import agree
from attnx.agreement.spearman import spearman
from attnx.agreement.ties import told_apart
from attnx.answer.prediction import Prediction, one_line
from attnx.inputs.positions import Positions, Word, punctuation
from attnx.results.result import Array


def legible(text: str) -> str:
    """Text of the input as a sentence may hold it: whoever prints the sentence, it steers no terminal."""
    return one_line(text.strip() or text)


def in_quotes(text: str) -> str:
    return f"'{legible(text)}'"


class Agreement(NamedTuple):
    """How a row stands to a reference that was measured on the same input."""

    name: str
    first: int | None
    """The unit that the reference puts first, by its number; None where several tie."""
    ranks: float
    """Spearman's correlation over the positions that are no special tokens; NaN where it is undefined."""


@dataclass(frozen=True, eq=False)
class Row:
    """The scores with what they are of. Units are the words of a text, or the patches of an image."""

    name: str
    layer: int | None
    """None for a reference, which has no layers."""
    scores: Array
    positions: Positions
    words: Sequence[Word]
    explained: str
    """Whose view of the input it is, as it stands in the text; or the mean of all positions."""
    prediction: Prediction | None = None
    others: Mapping[str, Array] = field(default_factory=dict)
    """The references that were measured on this very input, without the row itself."""
    signed: frozenset[str] = frozenset()
    digits: int | None = None
    local: bool = False
    about_answer: bool = False
    causal: bool = False
    diagnostics: Mapping[str, float] = field(default_factory=dict)
    """What the method says of itself at this layer."""
    tied: float = 0.0
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What a reference or a method told of its own numbers, such as what biases have of a score."""
    input: Mapping[str, Any] = field(default_factory=dict)
    """How the input was read: cut, unknown words, a token in front, how the model pools (`provenance["input"]`)."""
    offer: str = ""
    """How a caller would have it measured."""

    @property
    def measured(self) -> bool:
        """Whether it is a reference."""
        return self.layer is None

    @property
    def what(self) -> str:
        """Its name and its layer."""
        return self.name if self.measured else f"{self.name} at layer {self.layer}"

    @cached_property
    def content(self) -> list[int]:
        """The positions that are no special tokens."""
        return self.positions.content

    @cached_property
    def units(self) -> list[tuple[str, list[int]]]:
        """The words, or without any each position that is no special token; with the positions that make them."""
        if self.words:
            return [(one.text, list(one.positions)) for one in self.words]
        return [(self.positions[index].token, [index]) for index in self.content]

    @cached_property
    def _unit_of(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The unit of each position by its number, −1 for none."""
        found = np.full(len(self.positions), -1)
        for number, (_, places) in enumerate(self.units):
            found[places] = number
        return found

    def unit(self, number: int | None) -> str:
        """A unit as a sentence names it; "" for None."""
        return "" if number is None else in_quotes(self.units[number][0])

    @cached_property
    def first(self) -> int | None:
        """The number of the unit that comes first; None where several tie."""
        return self._first(self.scores, self.digits, by_sign=self.name in self.signed)

    @cached_property
    def strongest_to_mean(self) -> float:
        """How much the strongest position has of the mean one; NaN where nothing has anything, or few are there.

        Nor is a row even that has something for the answer and something against it.
        """
        scores = self.scores[self.content]
        sizes = np.abs(scores)
        if (scores > 0).any() and (scores < 0).any():
            return float("nan")
        return float(sizes.max() / sizes.mean()) if len(sizes) > 2 and sizes.any() else float("nan")

    @property
    def biases(self) -> float | None:
        """What biases have of the score, where that is told; they belong to no position."""
        return self.facts.get("biases")

    @property
    def from_positions(self) -> float:
        """What positions have of it, a sink's place included."""
        return float(self.facts.get("value", 0.0)) - (self.biases or 0.0)

    @cached_property
    def first_share(self) -> float:
        """What the first position holds of all."""
        return self._share([0])

    @cached_property
    def special_share(self) -> float:
        return self._share(self.positions.special)

    @cached_property
    def punctuation_share(self) -> float:
        return self._share(punctuation(self.words))

    @cached_property
    def agreements(self) -> tuple[Agreement, ...]:
        """How it stands to each other measurement: what that puts first, and how far the orders agree.

        What has a sign is ordered by it, for what speaks against made no answer; but where one of the two has none, the
        correlation is of sizes.
        """
        return tuple(self._agreement(name, scores) for name, scores in self.others.items())

    def _agreement(self, name: str, scores: Array) -> Agreement:
        own, other = told_apart(self.scores[self.content], self.digits), told_apart(scores[self.content])
        ranks = agree(spearman, own, other, both_signed={self.name, name} <= self.signed)
        return Agreement(name, self._first(scores, None, by_sign=name in self.signed), float(ranks))

    def _first(self, scores: Array, digits: int | None, *, by_sign: bool) -> int | None:
        member = self._unit_of >= 0
        found = np.bincount(self._unit_of[member], scores[member], minlength=len(self.units))
        sums = told_apart(found, digits)
        sums = sums if by_sign else np.abs(sums)
        best = np.flatnonzero(sums == sums.max(initial=0)) if sums.any() else np.arange(0)
        return int(best[0]) if len(best) == 1 else None

    def _share(self, places: list[int]) -> float:
        sizes = np.abs(self.scores)
        return float(sizes[places].sum() / sizes.sum()) if sizes.any() else 0.0
