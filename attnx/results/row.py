"""One row of an explanation, a method at a layer or a reference, with all that bears on how far to trust it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from attnx.answer.prediction import Prediction, visible
from attnx.inputs.positions import Positions, Word, punctuation
from attnx.results.result import Array
from attnx.results.units import Units, rank_correlation


def legible(text: str) -> str:
    """Text of the input as a sentence may hold it: whoever prints the sentence, it steers no terminal."""
    return visible(text)


def in_quotes(text: str) -> str:
    return f"'{legible(text)}'"


class Agreement(NamedTuple):
    """How a row stands to a reference that was measured on the same input."""

    name: str
    ranks: float
    """Spearman's correlation over `size` units; NaN where it is undefined."""
    signed: bool
    """Whether both have a sign, by which they are ordered; else both are ordered by size."""
    unit: str
    """Tokens that are not special, or patches; words or spans where one of the two was shared out over them."""
    size: int


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
    offer: tuple[str, ...] = ()
    """The references that a caller would name to have one more measurement."""
    compared: Mapping[str, Units] = field(default_factory=dict)
    """Reference → the units over which ranks are compared with it."""

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

    def unit(self, number: int | None) -> str:
        """A unit as a sentence names it; "" for None."""
        return "" if number is None else in_quotes(self.units[number][0])

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
        """The rank correlation with each other measurement, as `Comparison` has it (see `rank_correlation`)."""
        return tuple(self._agreement(name, scores) for name, scores in self.others.items())

    def _agreement(self, name: str, scores: Array) -> Agreement:
        units = self.compared.get(name) or Units("tokens", [(place,) for place in self.content])
        signed = {self.name, name} <= self.signed
        ranks = rank_correlation(self.scores, scores, units, self.digits, both_signed=signed)
        return Agreement(name, float(ranks), signed, units.name, len(units.positions))

    def _share(self, places: list[int]) -> float:
        sizes = np.abs(self.scores)
        return float(sizes[places].sum() / sizes.sum()) if sizes.any() else 0.0
