"""Scores of words, and of parts that the caller named: the sum over the positions of each; and how ranks agree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from attnx.agreement.by_sign import agree
from attnx.agreement.spearman import spearman
from attnx.agreement.ties import told_apart
from attnx.inputs.positions import Span, Word
from attnx.results.result import Array

if TYPE_CHECKING:
    from attnx.agreement.registry import Measure


@dataclass(frozen=True)
class WordScore:
    """A word of the text with its relevance: the sum over its pieces."""

    text: str
    score: float
    positions: tuple[int, ...]
    speaks: Literal["for", "against"] | None = None
    """For or against the answer, where the scores have a sign; None where they say only how much."""


def summed(units: Iterable[Word | Span], scores: Array, *, signed: bool) -> list[WordScore]:
    """Each in its order, with the sum of a row over its positions.

    >>> summed([Word(0, "keys", (1, 2))], np.array([0.5, 0.25, -1.0]), signed=True)
    [WordScore(text='keys', score=-0.75, positions=(1, 2), speaks='against')]
    """
    found = []
    for one in units:
        score = float(scores[list(one.positions)].sum())
        name = one.text if isinstance(one, Word) else one.name
        found.append(WordScore(name, score, one.positions, _speaks(score) if signed else None))
    return found


class Units(NamedTuple):
    """What ranks are compared over."""

    name: str
    """tokens, words or spans."""
    positions: Sequence[Sequence[int]]
    """Those of each unit."""

    def sums(self, scores: Array) -> Array:
        """Scores[…, position] → […, unit]."""
        if all(len(several) == 1 for several in self.positions):
            return np.asarray(scores[..., [several[0] for several in self.positions]])
        return np.stack([scores[..., list(several)].sum(-1) for several in self.positions], axis=-1)


def rank_correlation(
    scores: Array,
    other: Array,
    units: Units,
    digits: int | None = None,
    other_digits: int | None = None,
    *,
    both_signed: bool,
    measure: Measure = spearman,
) -> Array:
    """The one definition of agreement, of each row of `scores[…, position]` with `other[position]`.

    Positions are summed over `units`, special tokens left out; ties are ties to the digits of each method. Where both
    have a sign they are ordered by it, for what opposes the target made no answer; else both are ordered by size.
    """
    own, beside = told_apart(units.sums(scores), digits), told_apart(units.sums(other), other_digits)
    return agree(measure, own, beside, both_signed=both_signed)


def best(words: Sequence[WordScore], count: int, digits: int | None) -> list[WordScore]:
    """Those with the highest scores; words that tie, to the digits of their method, stay in the order of the text."""
    order = np.argsort(-told_apart([word.score for word in words], digits), kind="stable")
    return [words[place] for place in order[:count]]


def _speaks(score: float) -> Literal["for", "against"] | None:
    return None if score == 0 else "for" if score > 0 else "against"
