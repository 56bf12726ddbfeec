"""A similarity to look at: the words of both texts with their scores, and what each pair adds to the cosine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from attnx.errors import ChoiceError
from attnx.registry import unknown
from attnx.render.axes import VERBATIM
from attnx.render.colours import colour_map
from attnx.render.columns import Block
from attnx.render.printable import printable
from attnx.render.word_rows import strongest
from attnx.results.similarity import REST, Similarity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CELL = 0.5
"""Inches for one word."""
_WORDS = 12
"""Of a text so many words are in a table or a picture at most: those that add the most."""

BY = {
    "value_path": "along the value path, words as they enter the model",
    "states": "by positions as they leave the model, where each holds a mixture of words",
}


def blocks(one: Similarity) -> list[Block]:
    """The cosine, the words of each text by each method and reference, and the grid."""
    found = [Block(f"Similarity: {one.headline}", tuple(one.notes))]
    for number, explanation in enumerate(one.explanations, start=1):
        names = explanation.names
        scores = [explanation.by_word(name) for name in names]
        lines = [["word", *names]]
        lines += [
            [word.text, *(f"{own[index].score:+.4f}" for own in scores)] for index, word in enumerate(explanation.words)
        ]
        foot = tuple(f"{name}: {account}" for name, account in accounts(explanation))
        found.append(Block(f"text {number}: {explanation.title}", lines=lines, foot=foot))
    if one.grid is not None:
        rows, columns, grid = shortened(one)
        lines = [
            ["", *columns],
            *([name, *(f"{value:+.3f}" for value in row)] for name, row in zip(rows, grid, strict=True)),
        ]
        found.append(Block(grid_heading(one), lines=lines, foot=(sums(one),)))
    return found


def accounts(explanation: Any) -> list[tuple[str, str]]:
    """What a reference says of how its numbers add up."""
    kept = explanation.provenance.get("references", {})
    return [(name, str(kept[name]["account"])) for name in explanation.references if "account" in kept.get(name, {})]


def grid_heading(one: Similarity) -> str:
    return f"what each pair of words adds to the cosine, {BY.get(one.grid_by, one.grid_by)}"


def sums(one: Similarity) -> str:
    """What adds up to the cosine, and what of it belongs to no pair of words."""
    between = one.between_words or 0.0
    return (
        f"all pairs add up to the cosine {one.cosine:+.4f}: pairs of words {between:+.4f}, {REST}, which is special "
        f"tokens and biases, {one.cosine - between:+.4f}"
    )


def rows(one: Similarity) -> list[dict[str, Any]]:
    """A row for each pair of words; without a grid one for each word and method."""
    if one.grid is None:
        return [
            {"text": number, "method": name, "word": word.text, "score": word.score}
            for number, explanation in enumerate(one.explanations, start=1)
            for name in explanation.names
            for word in explanation.by_word(name)
        ]
    grid, (first, second) = one.word_grid(), one.words
    return [
        {"word": word, "other": other, "score": float(grid[row, column])}
        for row, word in enumerate((*first, REST))
        for column, other in enumerate((*second, REST))
    ]


def shortened(one: Similarity) -> tuple[list[str], list[str], Any]:
    """The names of rows and columns and the grid, of long texts those words that add the most; the rest stays last."""
    grid, size = one.word_grid(), np.abs(one.word_grid()[:-1, :-1])
    kept = [[*strongest(size.max(1 - axis), _WORDS), grid.shape[axis] - 1] for axis in (0, 1)]
    names = [[(*words, REST)[place] for place in places] for words, places in zip(one.words, kept, strict=True)]
    return names[0], names[1], grid[np.ix_(kept[0], kept[1])]


def plot(one: Similarity, method: str | None = None) -> Figure:
    """Each text as a strip of colours, by default by what stands first, and the grid beneath."""
    from matplotlib import pyplot

    name = one.explanations[0].row_name(method)
    known = one.explanations[0].names
    if name not in known:
        raise ChoiceError(unknown("method", name, known))
    wide = max(len(words) for words in one.words)
    high = 0 if one.grid is None else min(len(one.words[0]), _WORDS) + 1
    figure = pyplot.figure(figsize=(2.6 + _CELL * 1.6 * min(wide, 24), 3.4 + _CELL * high), layout="constrained")
    axes = figure.subplots(3 if high else 2, 1, height_ratios=[1, 1, max(high, 1)] if high else [1, 1], squeeze=False)
    for place, explanation in zip(axes[:2, 0], one.explanations, strict=True):
        words = explanation.by_word(name)
        _colours(place, np.array([[word.score for word in words]]), [""], [word.text for word in words], name)
    if high:
        names, others, grid = shortened(one)
        _colours(axes[2, 0], grid, names, others, "what each pair adds")
    figure.suptitle(one.headline, fontsize=10)
    return figure


def _colours(axes: Axes, scores: Any, names: list[str], words: list[str], title: str) -> None:
    """Numbers as colours with their digits inside, on a scale of their own."""
    most = max(float(np.abs(scores).max(initial=0.0)), 1e-9)
    signed = bool((scores < 0).any())
    axes.imshow(scores, aspect="auto", cmap=colour_map(signed=signed), vmin=-most if signed else 0, vmax=most)
    axes.set_xticks(range(len(words)), list(map(printable, words)), fontsize=9, rotation=30 if len(words) > 8 else 0)
    axes.set_yticks(range(len(names)), list(map(printable, names)), fontsize=9)
    for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        label.set(**VERBATIM)
    for (row, column), value in np.ndenumerate(scores):
        dark = abs(value) > 0.6 * most
        axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=8, color="1" if dark else "0.2")
    axes.tick_params(length=0)
    axes.set_title(title, fontsize=9, loc="left", **VERBATIM)
