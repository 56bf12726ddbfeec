"""A sheet of overlays: for each word that was written about a picture, the picture under what the word drew from."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from attnx.errors import ChoiceError, InputError
from attnx.inputs.positions import Word
from attnx.render.axes import VERBATIM, verbatim
from attnx.render.image_panels import extent, sheet, small
from attnx.render.overlay import highest_score, lit, picture_of
from attnx.render.printable import printable
from attnx.results.explanation import Explanation
from attnx.results.generation import GenerationExplanation
from attnx.results.remarks import line

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray[Any, np.dtype[Any]]

_MOST = 36
"""Words of one sheet: more are not told apart at the size that is left for each."""


@verbatim
def plot_overlays(
    generation: GenerationExplanation,
    method: str | None = None,
    layer: int | None = None,
    *,
    words: Sequence[int] | None = None,
    image: Any = None,
    colours: str = "viridis",
    smooth: bool = True,
) -> Figure:
    """One small overlay a word, in the order of the text, each on its own scale from 0 to its highest score.

    A word of several tokens shows the mean of their rows. Of a longer text the first 36 words are drawn, or those that
    `words` names by their numbers, counted from 0.
    """
    if generation.image_size is None:
        raise InputError("this text was not written about a picture: there is nothing to lay it over; plot() draws it")
    name = method or generation.shown_first
    written = written_words(generation)
    kept = _chosen(words, len(written))
    each = [of_word(generation, written[number], name, layer) for number in kept]
    picture = small(picture_of(each[0][0], image))
    signed = name in generation.signed
    highest = [highest_score(step, scores) for step, scores in each]
    pictures = [
        lit(step, scores, picture, colours, most, smooth=smooth, signed=signed)
        for (step, scores), most in zip(each, highest, strict=True)
    ]
    captions = [
        f"{printable(written[number].text)}\n{_from_picture(*one):.0%} from the picture\n{extent(most, signed=signed)}"
        for number, most, one in zip(kept, highest, each, strict=True)
    ]
    figure = sheet(pictures, captions, colours, None, signed=[signed], columns=min(len(kept), 4))
    at = generation.layer if layer is None else layer
    figure.suptitle(name if name in generation.references else f"{name} at layer {at}", fontsize=10, **VERBATIM)
    cut = f" (words {kept[0]} to {kept[-1]} of {len(written)})" if words is None and len(kept) < len(written) else ""
    said = printable(f"{name}{cut}: {line(generation.remarks(name))}")
    width = figure.get_size_inches()[0]
    figure.supxlabel(fill(said, round(14 * width)), fontsize=8, color="#55585f", **VERBATIM)
    return figure


def written_words(generation: GenerationExplanation) -> list[Word]:
    """The words that the model wrote, or went on with; special tokens, as that of the end, are none."""
    return [one for one in generation.words if max(one.positions) >= generation.prompt_length]


def _chosen(words: Sequence[int] | None, count: int) -> list[int]:
    if not count:
        raise InputError("nothing was written but special tokens: there is no word to draw")
    if words is None:
        return list(range(min(count, _MOST)))
    wrong = [one for one in words if not 0 <= one < count]
    if wrong or not words:
        raise ChoiceError(f"words {list(words)} asked, {count} were written: give numbers from 0 to {count - 1}")
    return list(words)


def of_word(generation: GenerationExplanation, word: Word, method: str, layer: int | None) -> tuple[Explanation, Array]:
    """The step of its last token, and the mean of the rows of all its tokens over what that has read."""
    tokens = [place - generation.prompt_length for place in word.positions if place >= generation.prompt_length]
    steps = [generation.step(number) for number in tokens]
    measured = method in generation.references
    rows = np.zeros((len(steps), len(steps[-1].positions)))
    for row, step in zip(rows, steps, strict=True):
        scores = step.scores(method, None if measured else layer)
        row[: len(scores)] = scores
    return steps[-1], rows.mean(0)


def _from_picture(step: Explanation, scores: Array) -> float:
    """How much of a row is on the patches, and on the image tokens that read them."""
    sizes = np.abs(scores)
    seen = [one.box is not None for one in step.positions]
    whole = float(sizes.sum())
    return float(sizes[seen].sum()) / whole if whole > 0 else 0.0
