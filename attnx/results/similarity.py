"""The result of `explain_similarity`: which words of two texts make their embeddings similar."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from attnx.results.explanation import Explanation
from attnx.results.fit import PROVENANCE, Between, Rules, check
from attnx.results.of_explanations import OfExplanations
from attnx.results.result import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REST = "(rest)"
"""What belongs to no word: special tokens and biases."""


def _position_by_position(grid: Array | None, result: Any) -> str | None:
    if grid is None:
        return None
    first, second = result.whole.explanations
    shape = (len(first.positions) + 1, len(second.positions) + 1)
    fits = grid.shape == shape and bool(np.isfinite(grid).all()) and _adds_up(grid, result.whole.cosine)
    return (
        None
        if fits
        else (f"finite numbers, {shape[0]} × {shape[1]}, positions and biases of both texts, that add up to the cosine")
    )


def _adds_up(grid: Array, cosine: float) -> bool:
    with np.errstate(over="ignore"):  # a file may hold anything
        return bool(abs(grid.sum() - cosine) <= 1e-3 * max(1.0, float(np.abs(grid).max())))


@dataclass(frozen=True, eq=False)
class Similarity(OfExplanations):
    """`s.explanations` has a heat map for each text, `s.word_grid()` what each pair of words adds to the cosine.

    >>> from attnx.tasks.recall.checkpoint import load_demo
    >>> decoder, tokenizer = load_demo()
    >>> few = {"methods": "rollout", "references": "value_path"}
    >>> s = explain_similarity(decoder.model, tokenizer, "k3 v7", "k3 v2", pooling="mean", **few)
    >>> s.word_grid().shape  # the words of each text, and the rest
    (3, 3)
    """

    kind: ClassVar[str] = "similarity"
    rules: ClassVar[Rules] = {"cosine": Between(-1.001, 1.001), "grid": _position_by_position, **PROVENANCE}

    explanations: tuple[Explanation, Explanation]
    """Of each text the words that make it similar to the other, whose embedding stands fixed."""
    cosine: float
    pooling: str
    """How the embedding is made of positions: mean, cls or last."""
    grid: Array | None = None
    """What each pair of positions adds to the cosine; the last row and column are what biases add. Its sum is the
    cosine."""
    grid_by: str = ""
    """What the grid is made of: "value_path", words as they entered, or "states", positions as they left."""
    notes: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check(self)

    @property
    def words(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Those of both texts."""
        first, second = (tuple(word.text for word in one.words) for one in self.explanations)
        return first, second

    def word_grid(self) -> Array:
        """Words × words and, last in both directions, the rest: special tokens and biases. Its sum is the cosine."""
        if self.grid is None:
            return np.zeros((0, 0))
        first, second = (_by_word(one) for one in self.explanations)
        return first @ self.grid @ second.T

    @property
    def between_words(self) -> float | None:
        """What pairs of words add up to; the rest of the cosine belongs to special tokens and biases."""
        return None if self.grid is None else float(self.word_grid()[:-1, :-1].sum())

    def pairs(self, most: int = 10) -> list[tuple[str, str, float]]:
        """The pairs of words that add the most, for or against, the largest first."""
        grid = self.word_grid()[:-1, :-1]
        order = np.argsort(-np.abs(grid), axis=None, kind="stable")[:most]
        places = [divmod(int(place), grid.shape[1]) for place in order]
        return [(self.words[0][row], self.words[1][column], float(grid[row, column])) for row, column in places]

    @property
    def headline(self) -> str:
        return f"cosine {self.cosine:.4f}, pooled by {self.pooling}"

    def plot(self, method: str | None = None) -> Figure:
        """A strip of colours for each text, and the grid of words where there is one."""
        drawn: Figure = self._view.plot(self, method)
        return drawn

    def __repr__(self) -> str:
        return f"Similarity({self.headline}, {len(self.words[0])} × {len(self.words[1])} words)"


def _by_word(explanation: Explanation) -> Array:
    """(words + 1) × (positions + 1): which positions a word has; the last row has all that belong to none."""
    found = np.zeros((len(explanation.words) + 1, len(explanation.positions) + 1))
    for word in explanation.words:
        found[word.index, list(word.positions)] = 1
    found[-1] = 1 - found[:-1].sum(0)
    return found
