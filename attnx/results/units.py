"""Scores of words, and of parts that the caller named: the sum over the positions of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from attnx.agreement.ties import told_apart
from attnx.inputs.positions import Span, Word
from attnx.results.result import Array


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


def best(words: Sequence[WordScore], count: int, digits: int | None) -> list[WordScore]:
    """Those with the highest scores; words that tie, to the digits of their method, stay in the order of the text."""
    order = np.argsort(-told_apart([word.score for word in words], digits), kind="stable")
    return [words[place] for place in order[:count]]


def _speaks(score: float) -> Literal["for", "against"] | None:
    return None if score == 0 else "for" if score > 0 else "against"
