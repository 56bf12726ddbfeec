"""An explanation to look at: which view is meant, where a text, an image and a sound have different ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from attnx.render.axes import verbatim
from attnx.render.best_parts import patch_table, stretch_table
from attnx.render.columns import TextBlock
from attnx.render.digits import places, written
from attnx.render.plain_text import answer, cautions, judgement, notes, plain, seen_from
from attnx.render.printable import printable
from attnx.render.terminal import coloured
from attnx.results.explanation import Explanation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import RenderableType


def text(explanation: Explanation) -> str:
    if explanation.seconds is not None:
        return stretch_table(explanation)
    return plain(explanation) if explanation.image_size is None else patch_table(explanation)


def rich(explanation: Explanation) -> RenderableType:
    """The words on coloured backgrounds, as `attnx explain` shows them; of an image or a sound its best parts."""
    from rich.text import Text

    if explanation.seconds is not None:
        return Text(stretch_table(explanation))
    return coloured(explanation) if explanation.image_size is None else Text(patch_table(explanation))


def blocks(explanation: Explanation) -> list[TextBlock]:
    """A line for each word, a column for each method at the last layer and for each reference."""
    names = explanation.names
    columns = [explanation.by_word(name) for name in names]
    decimals = [
        places([one.score for one in column], explanation.digits.get(name))
        for name, column in zip(names, columns, strict=True)
    ]
    words = [
        [
            printable(word.text),
            *(written(column[row].score, one) for column, one in zip(columns, decimals, strict=True)),
        ]
        for row, word in enumerate(explanation.words)
    ]
    said = [answer(explanation)] if explanation.prediction else []
    heading = ", ".join([*said, f"layer {explanation.layers[-1]}", seen_from(explanation)])
    foot = (*cautions(explanation, names), *notes(explanation))
    lead = (judgement(explanation, explanation.row_name()),)
    found = [TextBlock(heading, lead=lead, lines=[["word", *names], *words], foot=foot)]
    return [*found, _parts(explanation, names)] if explanation.spans else found


def _parts(explanation: Explanation, names: Sequence[str]) -> TextBlock:
    """A line for each part that was named, with the sums over its tokens."""
    columns = []
    for name in names:
        sums = [one.score for one in explanation.by_span(name)]
        decimals = places(sums, explanation.digits.get(name))
        columns.append([written(score, decimals) for score in sums])
    lines = [[printable(one.name), *cells] for one, *cells in zip(explanation.spans, *columns, strict=True)]
    return TextBlock("parts of the text, each the sum over its tokens", lines=[["part", *names], *lines])


def rows(explanation: Explanation) -> list[dict[str, Any]]:
    """A row for each method, layer, head (where every head was asked for) and position; references as columns."""
    words = {index: word.text for word in explanation.words for index in word.positions}
    found: list[dict[str, Any]] = []
    for method, scores in explanation.relevance.items():
        for place, score in np.ndenumerate(scores):
            position = explanation.positions[place[-1]]
            row = {"method": method, "layer": explanation.layers[place[0]]}
            row |= {"head": place[1]} if len(place) == 3 else {}
            row |= {
                "position": position.index,
                "token": position.token,
                "word": words.get(position.index),
                "special": position.special,
                "score": float(score),
                **{name: float(values[position.index]) for name, values in explanation.references.items()},
            }
            found.append(row)
    return found


def plot(
    explanation: Explanation,
    method: str | None,
    layer: int | None,
    *,
    head: int | None,
    ax: Axes | None,
    image: Any,
    **looks: Any,
) -> Axes | Figure:
    """Bars or a strip of colours; of an image its overlay, or the panels of all methods; of sound strips over time."""
    if explanation.seconds is not None:
        from attnx.render.time_strip import plot_sound

        return plot_sound(explanation, method, layer, head=head, ax=ax)
    if explanation.image_size is not None:
        from attnx.render.image_panels import plot_image

        return plot_image(explanation, method, layer, head=head, ax=ax, image=image)
    from attnx.render.row import plot_row

    return plot_row(explanation, method, layer, head=head, ax=ax, **looks)


@verbatim
def plot_layers(
    explanation: Explanation,
    method: str | None,
    *,
    special: bool,
    content_only: bool,
    head: int | None,
    ax: Axes | None,
    image: Any,
) -> Axes | Figure:
    """Layers × positions; of an image a strip of overlays, of sound layers × time."""
    if explanation.seconds is not None and ax is None:
        from attnx.render.time_strip import plot_sound_layers

        return plot_sound_layers(explanation, method, head=head)
    if explanation.image_size is not None and ax is None:
        from attnx.render.image_panels import layer_strip

        return layer_strip(explanation, method, head=head, image=image)
    from attnx.render.heat_map import plot_heat_map

    return plot_heat_map(explanation, method, special=special, content_only=content_only, head=head, ax=ax)
