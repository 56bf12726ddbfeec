"""The result of `explain_similarity`: which words of two texts, or patches and words, make their embeddings similar."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from attnx.adapters import OWN
from attnx.errors import ChoiceError
from attnx.registry import unknown
from attnx.results import PROVENANCE, Array, Between, Explanation, OfExplanations, Rules, check
from attnx.views import (
    VERBATIM,
    TextBlock,
    accounts,
    draw_heat_map,
    place_text,
    places,
    plot_image,
    reduction_note,
    strongest,
    table_data,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COSINE = "cosine"
"""The score that is explained, unless a matching head reads both sides together."""
REST = "(rest)"
"""Special tokens and biases, which belong to no word."""


def _position_by_position(grid: Array | None, result: Any) -> str | None:
    if grid is None:
        return None
    rows, columns = (len(explanation.positions) + 1 for explanation in result.whole.explanations)
    with np.errstate(over="ignore"):  # a file may contain anything
        finite = grid.shape == (rows, columns) and np.isfinite(grid).all()
        if finite and abs(grid.sum() - result.whole.cosine) <= 1e-3 * max(1.0, float(np.abs(grid).max())):
            return None
    return f"finite numbers, {rows} × {columns}, positions and biases of both texts, that add up to the cosine"


@dataclass(frozen=True, eq=False)
class Similarity(OfExplanations):
    """`s.explanations` has a heat map for each side, `s.word_grid()` what each pair of words adds to the cosine.

    A side is a text, or an image, whose words are its patches.

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
    """For each side the words or patches that make it similar to the other, whose embedding is held fixed."""
    cosine: float
    pooling: str
    """How positions are pooled: mean, cls or last, or own where the model does it itself."""
    grid: Array | None = None
    """What each pair of positions adds to the cosine; the last row and column are the biases. Its sum is the cosine."""
    grid_by: str = ""
    """What the grid is made of: "lrp", words as they enter the model, or "states", positions as they leave it."""
    notes: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    score: str = field(default=COSINE)
    """The score that is explained: "cosine", or "match" of a head that reads both sides together."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def words(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The words of both texts; of an image its patches."""
        first, second = (tuple(word.text for word in explanation.words) for explanation in self.explanations)
        return first, second

    @property
    def titles(self) -> tuple[str, str]:
        """Whether each side is a text or an image, numbered where both are the same."""
        first, second = ("text" if explanation.image_size is None else "image" for explanation in self.explanations)
        return (f"{first} 1", f"{second} 2") if first == second else (first, second)

    def word_grid(self) -> Array:
        """Words × words and, last in both directions, the rest: special tokens and biases. Its sum is the cosine."""
        if self.grid is None:
            return np.zeros((0, 0))
        first, second = (_word_membership(explanation) for explanation in self.explanations)
        return first @ self.grid @ second.T

    @property
    def between_words(self) -> float | None:
        """The sum over pairs of words; the rest of the cosine belongs to special tokens and biases."""
        return None if self.grid is None else float(self.word_grid()[:-1, :-1].sum())

    def pairs(self, most: int = 10) -> list[tuple[str, str, float]]:
        """The pairs of words that contribute most, with either sign, the largest first."""
        grid = self.word_grid()[:-1, :-1]
        order = np.argsort(-np.abs(grid), axis=None, kind="stable")[:most]
        indices = [divmod(int(index), grid.shape[1]) for index in order]
        return [(self.words[0][row], self.words[1][column], float(grid[row, column])) for row, column in indices]

    @property
    def match(self) -> float | None:
        """The probability that both sides belong together, by the matching head; None where there is none."""
        prediction = self.explanations[0].prediction
        return None if self.score == COSINE or prediction is None else prediction.probability

    @property
    def headline(self) -> str:
        pooled = "the model itself" if self.pooling == OWN else self.pooling
        matched = "" if self.match is None else f"match {self.match:.1%}, "
        return f"{matched}cosine {self.cosine:.4f}, pooled by {pooled}"

    def plot(self, method: str | None = None, *, image: Any = None) -> Figure:
        """Draw a strip of colours for each text, an image under its scores, and the grid of pairs where there is one.

        Args:
            method: by default the method that is shown first.
            image: the image where the result has none, because it was loaded from a file.
        """
        figure: Figure = self._view.plot(self, method, image=image)
        return figure

    def __repr__(self) -> str:
        return f"Similarity({self.headline}, {len(self.words[0])} × {len(self.words[1])} words)"


def _word_membership(explanation: Explanation) -> Array:
    """(words + 1) × (positions + 1): 1 where a position belongs to a word; the last row has those of no word."""
    membership = np.zeros((len(explanation.words) + 1, len(explanation.positions) + 1))
    for word in explanation.words:
        membership[word.index, list(word.positions)] = 1
    membership[-1] = 1 - membership[:-1].sum(0)
    return membership


_CELL = 0.5
"""Inches for one word."""
_STRIP, _IMAGE = 0.9, 3.4
"""Inches for a text, and for an image."""
_WORDS = 12
"""The most words of a text, or patches of an image, in a grid."""
_GRID_BY = {
    "lrp": "along the value path, as they enter the model",
    "states": "by positions as they leave the model, where each holds a mixture of words",
}


def blocks(similarity: Similarity) -> list[TextBlock]:
    """The cosine, the words or strongest patches of each side by each method, and the grid."""
    text_blocks = [TextBlock(f"Similarity: {similarity.headline}", tuple(similarity.notes))]
    text_blocks += map(_side, similarity.titles, similarity.explanations)
    if similarity.grid is not None:
        rows, columns, grid = _shortened(similarity)
        decimals = max(3, places(grid))
        lines = [[name, *(f"{value:+.{decimals}f}" for value in row)] for name, row in zip(rows, grid, strict=True)]
        text_blocks.append(
            TextBlock(_grid_heading(similarity), lines=[["", *columns], *lines], foot=(_sums(similarity),))
        )
    return text_blocks


def _side(title: str, explanation: Explanation) -> TextBlock:
    """All words of a text, or the strongest patches of an image with their boxes."""
    names, size = explanation.methods, explanation.image_size
    columns = [explanation.by_word(name) for name in names]
    decimals = [max(4, places([word.score for word in column])) for column in columns]
    kept = list(range(len(explanation.words)))
    if size is not None:  # the strongest first
        sizes = np.abs([word.score for word in explanation.by_word(explanation.methods[0])])
        kept = np.argsort(-sizes, kind="stable")[:_WORDS].tolist()
    lines = [["word", *names] if size is None else ["patch", "left, top to right, bottom", *names]]
    for index in kept:
        word = explanation.words[index]
        box = [] if size is None else [place_text(explanation.positions[word.positions[0]])]
        scores = (f"{column[index].score:+.{places_}f}" for column, places_ in zip(columns, decimals, strict=True))
        lines.append([word.text, *box, *scores])
    left_out = reduction_note(len(kept), len(explanation.words), f"patches by {explanation.methods[0]}")
    sums = (f"{name}: {account}" for name, account in accounts(explanation, names))
    content = explanation.title or ("{} × {} pixels".format(*size) if size else "")
    return TextBlock(f"{title}: {content}", lines=lines, foot=(*filter(None, [left_out]), *sums, *explanation.notes))


def _grid_heading(similarity: Similarity) -> str:
    by = _GRID_BY.get(similarity.grid_by, similarity.grid_by)
    return f"what each pair of {_pair_noun(similarity)} adds to the cosine, {by}"


def _pair_noun(similarity: Similarity) -> str:
    first, second = ("words" if side.image_size is None else "patches" for side in similarity.explanations)
    return first if first == second else "patch and word" if first == "patches" else "word and patch"


def _sums(similarity: Similarity) -> str:
    """What adds up to the cosine, and which part belongs to no pair of words."""
    between = similarity.between_words or 0.0
    return (
        f"all pairs add up to the cosine {similarity.cosine:+.4f}: pairs of {_pair_noun(similarity)} {between:+.4f}, "
        f"{REST}, which is special tokens and biases, {similarity.cosine - between:+.4f}"
    )


def rows(similarity: Similarity) -> list[dict[str, Any]]:
    """A row for each pair of words; without a grid a row for each word and method."""
    if similarity.grid is None:
        return [
            {"text": number, "method": name, "word": word.text, "score": word.score}
            for number, explanation in enumerate(similarity.explanations, start=1)
            for name in explanation.methods
            for word in explanation.by_word(name)
        ]
    grid, (first, second) = similarity.word_grid(), similarity.words
    return [
        {"word": word, "other": other, "score": float(grid[row, column])}
        for row, word in enumerate((*first, REST))
        for column, other in enumerate((*second, REST))
    ]


def _shortened(similarity: Similarity) -> tuple[list[str], list[str], Any]:
    """Names of rows and columns and the grid, of long texts those words that contribute most; the rest stays last."""
    grid = similarity.word_grid()
    sizes = np.abs(grid[:-1, :-1])
    kept = [[*strongest(sizes.max(1 - axis), _WORDS), grid.shape[axis] - 1] for axis in (0, 1)]
    names = [
        [(*words, REST)[index] for index in indices] for words, indices in zip(similarity.words, kept, strict=True)
    ]
    return names[0], names[1], grid[np.ix_(kept[0], kept[1])]


def plot(similarity: Similarity, method: str | None = None, *, image: Any = None) -> Figure:
    """Each text as a strip of colours, an image under its scores; the grid beneath."""
    from matplotlib import pyplot

    name, known = method or similarity.explanations[0].methods[0], similarity.explanations[0].methods
    if name not in known:
        raise ChoiceError(unknown("method", name, known))
    grid = None if similarity.grid is None else _shortened(similarity)
    sides = similarity.explanations
    has_image = [side.image_size is not None and (side.image or image) is not None for side in sides]
    widest = max((len(side.words) for side in sides if side.image_size is None), default=0)
    heights = [_IMAGE if drawn else _STRIP for drawn in has_image] + ([] if grid is None else [_CELL * len(grid[0])])
    width = 2.6 + _CELL * 1.6 * max(_WORDS, min(2 * _WORDS, widest))
    figure = pyplot.figure(figsize=(width, 1.4 + sum(heights)), layout="constrained")
    axes = figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    for panel, title, side, drawn in zip(axes[:2], similarity.titles, sides, has_image, strict=True):
        if drawn:
            plot_image(side, name, ax=panel, image=image)
        else:  # of an image that is not available the strongest patches
            words = side.by_word(name)
            kept = strongest([abs(word.score) for word in words], len(words) if side.image_size is None else _WORDS)
            scores = np.array([[words[index].score for index in kept]])
            _heat_map(panel, scores, [""], [words[index].text for index in kept])
        panel.set_title(f"{title}: {name}", fontsize=9, loc="left", **VERBATIM)
    if grid is not None:
        names, others, scores = grid
        _heat_map(axes[2], scores, names, others)
        axes[2].set_title(f"what each pair of {_pair_noun(similarity)} adds", fontsize=9, loc="left")
    figure.suptitle(similarity.headline, fontsize=10)
    return figure


def _heat_map(axes: Any, scores: Any, names: list[str], words: list[str]) -> None:
    """Scores as colours with their digits inside, on a scale of their own."""
    rotation, decimals = 30 if len(words) > 8 else 0, max(2, places(scores) - 1)
    draw_heat_map(axes, scores, words, names, origin="upper", rotation=rotation, decimals=decimals, colour_bar=False)


def alignment_data(similarity: Similarity) -> dict[str, Any]:
    """What the page's section of two aligned sides shows: the first side on the left and across the grid."""
    across, down, grid = _shortened(similarity)
    strongest_column = int(np.abs(grid[:-1, :-1]).max(0, initial=0).argmax()) if len(down) > 1 else 0
    return {
        "title": "What makes both similar",
        "verbs": {"target": "goes with", "source": "goes with"},
        "arrow": "×",
        "names": dict(zip(("source", "target"), map(str.capitalize, similarity.titles), strict=True)),
        "all": f"All pairs of {_pair_noun(similarity)}",
        "headline": f"{similarity.headline}; {_grid_heading(similarity)}",
        "start": strongest_column,
        "notes": [_sums(similarity), *similarity.notes],
        "sentences": [{"source": across, "target": down, "links": [], "scores": np.round(grid.T, 6).tolist()}],
        "tables": table_data(blocks(similarity)),
    }
