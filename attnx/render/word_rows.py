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
        absent = np.array([place is None for place in places])
        return WordRows(
            self.labels,
            tuple(GAP if place is None else self.words[place] for place in places),
            np.where(absent, 0, self.scores[:, columns]),
            np.where(absent, 0, self.shares[:, columns]),
            f"{reduction_note(most, len(self.words), 'words')}; {GAP} stands for the rest",
        )


def named_rows(explanation: Explanation, names: Sequence[str], layer: int | None = None) -> WordRows:
    """A row for each method or reference, each on its own scale: they are of different size."""
    rows = [[word.score for word in explanation.by_word(name, layer)] for name in names]
    scores = np.array(rows, dtype=float).reshape(len(rows), -1)
    return WordRows(tuple(names), _words(explanation), scores, _shares(scores, abs(scores).max(-1, initial=0)[:, None]))


def layer_rows(explanation: Explanation, method: str) -> WordRows:
    """A row for each layer with the last on top, all on one scale, as in the paper's Figures 2 and 3."""
    layers = explanation.layers[::-1]
    rows = [[word.score for word in explanation.by_word(method, layer)] for layer in layers]
    scores = np.array(rows, dtype=float).reshape(len(rows), -1)
    labels = tuple(f"layer {layer}" for layer in layers)
    return WordRows(labels, _words(explanation), scores, _shares(scores, abs(scores).max(initial=0)))


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


def _words(explanation: Explanation) -> tuple[str, ...]:
    return tuple(printable(word.text) for word in explanation.words)


def _shares(scores: Array, most: Any) -> Array:
    shares: Array = scores / np.where(most > 0, most, 1)
    return shares
