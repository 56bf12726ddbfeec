"""The result of `explain_similarity`: which words of two texts, or patches and words, make their embeddings similar."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from attnx.adapters import OWN
from attnx.results import LATER, PROVENANCE, Array, Between, Explanation, OfExplanations, Rules, check

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COSINE = "cosine"
"""What is explained, unless a head reads both sides together."""
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
    """`s.explanations` has a heat map for each side, `s.word_grid()` what each pair of words adds to the cosine.

    A side is a text, or a picture, whose words are its patches.

    >>> from attnx.demo_models.recall import load_demo
    >>> decoder, tokenizer = load_demo()
    >>> few = {"methods": "rollout", "references": "lrp"}
    >>> s = explain_similarity(decoder.model, tokenizer, "k3 v7", "k3 v2", pooling="mean", **few)
    >>> s.word_grid().shape  # the words of each text, and the rest
    (3, 3)
    """

    kind: ClassVar[str] = "similarity"
    rules: ClassVar[Rules] = {"cosine": Between(-1.001, 1.001), "grid": _position_by_position, **PROVENANCE}

    explanations: tuple[Explanation, Explanation]
    """Of each side the words or patches that make it similar to the other, whose embedding stands fixed."""
    cosine: float
    pooling: str
    """How the embedding is made of positions: mean, cls or last, or own where the model does it itself."""
    grid: Array | None = None
    """What each pair of positions adds to the cosine; the last row and column are what biases add. Its sum is the
    cosine."""
    grid_by: str = ""
    """What the grid is made of: "lrp", words as they entered, or "states", positions as they left."""
    notes: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    score: str = field(default=COSINE, metadata=LATER)
    """Which number the explanations are of: the cosine, or "match" of a head that reads both sides together."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def words(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Those of both texts; of a picture its patches."""
        first, second = (tuple(word.text for word in explanation.words) for explanation in self.explanations)
        return first, second

    @property
    def titles(self) -> tuple[str, str]:
        """What both sides are: text or picture, with a number where they are alike."""
        first, second = ("text" if explanation.image_size is None else "picture" for explanation in self.explanations)
        return (f"{first} 1", f"{second} 2") if first == second else (first, second)

    def word_grid(self) -> Array:
        """Words × words and, last in both directions, the rest: special tokens and biases. Its sum is the cosine."""
        if self.grid is None:
            return np.zeros((0, 0))
        first, second = (_by_word(explanation) for explanation in self.explanations)
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
    def match(self) -> float | None:
        """The probability that both belong together, by a head that reads them together; None where there is none."""
        answer = self.explanations[0].prediction
        return None if self.score == COSINE or answer is None else answer.probability

    @property
    def headline(self) -> str:
        pooled = "the model itself" if self.pooling == OWN else self.pooling
        matched = "" if self.match is None else f"match {self.match:.1%}, "
        return f"{matched}cosine {self.cosine:.4f}, pooled by {pooled}"

    def plot(self, method: str | None = None, *, image: Any = None) -> Figure:
        """A strip of colours for each text, a picture under its scores, and the grid of pairs where there is one.

        `image` is the picture where the result has none, because it was loaded from a file.
        """
        drawn: Figure = self._view.plot(self, method, image=image)
        return drawn

    def __repr__(self) -> str:
        return f"Similarity({self.headline}, {len(self.words[0])} × {len(self.words[1])} words)"


def _by_word(explanation: Explanation) -> Array:
    """(words + 1) × (positions + 1): which positions a word has; the last row has all that belong to none."""
    array = np.zeros((len(explanation.words) + 1, len(explanation.positions) + 1))
    for word in explanation.words:
        array[word.index, list(word.positions)] = 1
    array[-1] = 1 - array[:-1].sum(0)
    return array
