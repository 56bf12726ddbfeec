"""The words of a text with several rows of scores, one a method or one a layer, and which of them are strongest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnx.render.printable import printable
from attnx.results.explanation import Explanation

Array = np.ndarray[Any, np.dtype[Any]]

GAP = "⋯"
"""Stands for words that were left out."""


@dataclass(frozen=True, eq=False)
class WordRows:
    """`scores[row, word]`, and `shares`, the same between −1 and 1: how strongly each is to be shown."""

    labels: tuple[str, ...]
    words: tuple[str, ...]
    scores: Array
    shares: Array
    note: str = ""
    """What was left out of a long text."""
    starts: frozenset[int] = frozenset()
    """Where a second text begins."""

    def shortened(self, most: int) -> WordRows:
        """The `most` words that are strongest in any row; a gap stands for each run of the others."""
        if len(self.words) <= most:
            return self
        kept = strongest(abs(self.shares).max(0), most)
        places: list[int | None] = []
        for index in range(len(self.words)):
            if index in kept:
                places.append(index)
            elif not places or places[-1] is not None:
                places.append(None)
        columns = [-1 if place is None else place for place in places]
        seats = np.maximum.accumulate(columns)  # a gap stands in the text of what is before it
        absent = np.array([place is None for place in places])
        return WordRows(
            self.labels,
            tuple(GAP if place is None else self.words[place] for place in places),
            np.where(absent, 0, self.scores[:, columns]),
            np.where(absent, 0, self.shares[:, columns]),
            f"{reduction_note(most, len(self.words), 'words')}; {GAP} stands for the rest",
            frozenset(_starts([max((start for start in self.starts if start <= one), default=0) for one in seats])),
        )


def named_rows(
    explanation: Explanation, names: Sequence[str], layer: int | None = None, *, content_only: bool = False
) -> WordRows:
    """A row for each method or reference, each on its own scale: they are of different size."""
    rows = [[word.score for word in explanation.by_word(name, layer, content_only=content_only)] for name in names]
    scores = np.array(rows, dtype=float).reshape(len(rows), -1)
    shares = _shares(scores, abs(scores).max(-1, initial=0)[:, None])
    return _word_rows(explanation, tuple(names), scores, shares, content_only=content_only)


def layer_rows(explanation: Explanation, method: str, *, content_only: bool = False) -> WordRows:
    """A row for each layer with the last on top, all on one scale, as in the paper's Figures 2 and 3."""
    layers = explanation.layers[::-1]
    rows = [[word.score for word in explanation.by_word(method, layer, content_only=content_only)] for layer in layers]
    scores = np.array(rows, dtype=float).reshape(len(rows), -1)
    labels = tuple(f"layer {layer}" for layer in layers)
    return _word_rows(
        explanation, labels, scores, _shares(scores, abs(scores).max(initial=0)), content_only=content_only
    )


def strongest(scores: Sequence[float] | Array, most: int) -> list[int]:
    """Where the `most` largest scores stand, in the order of the input; of equals the earlier ones.

    >>> strongest([0.1, 0.4, 0.2, 0.4], 2)
    [1, 3]
    """
    order: list[int] = np.argsort(-np.asarray(scores, dtype=float), kind="stable")[:most].tolist()
    return sorted(order)


def reduction_note(kept: int, count: int, things: str) -> str:
    """A line that says what is missing; nothing when nothing is."""
    return f"the strongest {kept:,} of {count:,} {things}" if kept < count else ""


def _word_rows(
    explanation: Explanation, labels: tuple[str, ...], scores: Array, shares: Array, *, content_only: bool
) -> WordRows:
    words = explanation.content_words if content_only else explanation.words
    starts = frozenset(_starts([word.segment for word in words]))
    return WordRows(labels, tuple(printable(word.text) for word in words), scores, shares, starts=starts)


def _starts(parts: Sequence[int]) -> list[int]:
    """Where a part differs from the one before it."""
    return [place for place in range(1, len(parts)) if parts[place] != parts[place - 1]]


def _shares(scores: Array, most: Any) -> Array:
    shares: Array = scores / np.where(most > 0, most, 1)
    return shares
