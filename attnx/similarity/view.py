"""A similarity to look at: words or patches of both sides with their scores, and what each pair adds to the cosine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from attnx.errors import ChoiceError
from attnx.registry import unknown
from attnx.results import Explanation
from attnx.similarity.result import REST, Similarity
from attnx.views import (
    VERBATIM,
    TextBlock,
    colour_map,
    place_text,
    places,
    plot_image,
    printable,
    reduction_note,
    strongest,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CELL = 0.5
"""Inches for one word."""
_STRIP, _PICTURE = 0.9, 3.4
"""Inches for a text, and for a picture."""
_WORDS = 12
"""So many words of a text, or patches of a picture, are in a grid at most: those that add the most."""

BY = {
    "lrp": "along the value path, as they enter the model",
    "states": "by positions as they leave the model, where each holds a mixture of words",
}


def blocks(similarity: Similarity) -> list[TextBlock]:
    """The cosine, the words or best patches of each side by each method and reference, and the grid."""
    text_blocks = [TextBlock(f"Similarity: {similarity.headline}", tuple(similarity.notes))]
    text_blocks += [
        _side(title, explanation) for title, explanation in zip(similarity.titles, similarity.explanations, strict=True)
    ]
    if similarity.grid is not None:
        rows, columns, grid = shortened(similarity)
        decimals = max(3, places(grid))
        lines = [
            ["", *columns],
            *([name, *(f"{value:+.{decimals}f}" for value in row)] for name, row in zip(rows, grid, strict=True)),
        ]
        text_blocks.append(TextBlock(grid_heading(similarity), lines=lines, foot=(sums(similarity),)))
    return text_blocks


def _side(title: str, explanation: Explanation) -> TextBlock:
    """All words of a text, or the patches of a picture that come first, with their boxes."""
    names = explanation.names
    scores = [explanation.by_word(name) for name in names]
    decimals = [max(4, places([word.score for word in score])) for score in scores]
    pictured = explanation.image_size is not None
    kept = _first_patches(explanation) if pictured else range(len(explanation.words))
    lines = [["patch", *(["left, top to right, bottom"] if pictured else []), *names] if pictured else ["word", *names]]
    for index in kept:
        word = explanation.words[index]
        box = [place_text(explanation.positions[word.positions[0]])] if pictured else []
        lines.append(
            [
                word.text,
                *box,
                *(f"{score[index].score:+.{decimal}f}" for score, decimal in zip(scores, decimals, strict=True)),
            ]
        )
    left_out = reduction_note(len(kept), len(explanation.words), f"patches by {explanation.row_name()}")
    accounted = (f"{name}: {account}" for name, account in accounts(explanation))
    said = explanation.title or ("{} × {} pixels".format(*explanation.image_size) if explanation.image_size else "")
    return TextBlock(f"{title}: {said}", lines=lines, foot=(*filter(None, [left_out]), *accounted, *explanation.notes))


def _first_patches(explanation: Explanation) -> list[int]:
    """The places of the patches that come first in what is shown first, the strongest in front."""
    sizes = np.abs([word.score for word in explanation.by_word(explanation.row_name())])
    order: list[int] = np.argsort(-sizes, kind="stable")[:_WORDS].tolist()
    return order


def accounts(explanation: Any) -> list[tuple[str, str]]:
    """What a reference says of how its numbers add up."""
    kept = explanation.provenance.get("references", {})
    return [(name, str(kept[name]["account"])) for name in explanation.references if "account" in kept.get(name, {})]


def grid_heading(similarity: Similarity) -> str:
    by = BY.get(similarity.grid_by, similarity.grid_by)
    return f"what each pair of {pair_noun(similarity)} adds to the cosine, {by}"


def pair_noun(similarity: Similarity) -> str:
    """What is paired: words, patches, or one of each."""
    nouns = ["word" if explanation.image_size is None else "patch" for explanation in similarity.explanations]
    return {"word": "words", "patch": "patches"}[nouns[0]] if nouns[0] == nouns[1] else " and ".join(nouns)


def sums(similarity: Similarity) -> str:
    """What adds up to the cosine, and what of it belongs to no pair of words."""
    between = similarity.between_words or 0.0
    return (
        f"all pairs add up to the cosine {similarity.cosine:+.4f}: pairs of {pair_noun(similarity)} {between:+.4f}, "
        f"{REST}, which is special tokens and biases, {similarity.cosine - between:+.4f}"
    )


def rows(similarity: Similarity) -> list[dict[str, Any]]:
    """A row for each pair of words; without a grid one for each word and method."""
    if similarity.grid is None:
        return [
            {"text": number, "method": name, "word": word.text, "score": word.score}
            for number, explanation in enumerate(similarity.explanations, start=1)
            for name in explanation.names
            for word in explanation.by_word(name)
        ]
    grid, (first, second) = similarity.word_grid(), similarity.words
    return [
        {"word": word, "other": other, "score": float(grid[row, column])}
        for row, word in enumerate((*first, REST))
        for column, other in enumerate((*second, REST))
    ]


def shortened(similarity: Similarity) -> tuple[list[str], list[str], Any]:
    """The names of rows and columns and the grid, of long texts those words that add the most; the rest stays last."""
    grid, size = similarity.word_grid(), np.abs(similarity.word_grid()[:-1, :-1])
    kept = [[*strongest(size.max(1 - axis), _WORDS), grid.shape[axis] - 1] for axis in (0, 1)]
    names = [[(*words, REST)[place] for place in places] for words, places in zip(similarity.words, kept, strict=True)]
    return names[0], names[1], grid[np.ix_(kept[0], kept[1])]


def plot(similarity: Similarity, method: str | None = None, *, image: Any = None) -> Figure:
    """Each text as a strip of colours, a picture under its scores, by what stands first; the grid beneath."""
    from matplotlib import pyplot

    name = similarity.explanations[0].row_name(method)
    known = similarity.explanations[0].names
    if name not in known:
        raise ChoiceError(unknown("method", name, known))
    grid = None if similarity.grid is None else shortened(similarity)
    drawn = [
        explanation.image_size is not None and (explanation.image or image) is not None
        for explanation in similarity.explanations
    ]
    texts = [len(explanation.words) for explanation in similarity.explanations if explanation.image_size is None]
    wide = max(_WORDS, min(2 * _WORDS, max(texts, default=0)))
    heights = [_PICTURE if pictured else _STRIP for pictured in drawn]
    heights += [] if grid is None else [_CELL * len(grid[0])]
    figure = pyplot.figure(figsize=(2.6 + _CELL * 1.6 * wide, 1.4 + sum(heights)), layout="constrained")
    axes = figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    for place, title, explanation, pictured in zip(
        axes[:2], similarity.titles, similarity.explanations, drawn, strict=True
    ):
        if pictured:
            plot_image(explanation, name, ax=place, image=image)
            place.set_title(f"{title}: {name}", fontsize=9, loc="left", **VERBATIM)
        else:
            _strip(place, explanation, name, title)
    if grid is not None:
        names, others, scores = grid
        _colours(axes[2], scores, names, others, f"what each pair of {pair_noun(similarity)} adds")
    figure.suptitle(similarity.headline, fontsize=10)
    return figure


def _strip(axes: Axes, explanation: Explanation, name: str, title: str) -> None:
    """All words of a text, or the best patches of a picture that is not at hand."""
    words = explanation.by_word(name)
    if explanation.image_size is not None:
        words = [words[index] for index in strongest([abs(word.score) for word in words], _WORDS)]
    _colours(axes, np.array([[word.score for word in words]]), [""], [word.text for word in words], f"{title}: {name}")


def _colours(axes: Axes, scores: Any, names: list[str], words: list[str], title: str) -> None:
    """Numbers as colours with their digits inside, on a scale of their own."""
    most = max(float(np.abs(scores).max(initial=0.0)), 1e-9)
    signed = bool((scores < 0).any())
    axes.imshow(scores, aspect="auto", cmap=colour_map(signed=signed), vmin=-most if signed else 0, vmax=most)
    axes.set_xticks(range(len(words)), list(map(printable, words)), fontsize=9, rotation=30 if len(words) > 8 else 0)
    axes.set_yticks(range(len(names)), list(map(printable, names)), fontsize=9)
    for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        label.set(**VERBATIM)
    decimals = max(2, places(scores) - 1)
    for (row, column), value in np.ndenumerate(scores):
        dark = abs(value) > 0.6 * most
        axes.text(
            column, row, f"{value:.{decimals}f}", ha="center", va="center", fontsize=8, color="1" if dark else "0.2"
        )
    axes.tick_params(length=0)
    axes.set_title(title, fontsize=9, loc="left", **VERBATIM)
