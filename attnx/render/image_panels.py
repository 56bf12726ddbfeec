"""Several views of one picture side by side: every method and reference, or one method at every layer."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from attnx.render.axes import VERBATIM, given_or_new
from attnx.render.overlay import colour_map, highest_score, lit, picture_of
from attnx.render.plain_text import judgement, row_name
from attnx.results.explanation import Explanation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from PIL.Image import Image

Array = np.ndarray[Any, np.dtype[Any]]

_WIDTH = 2.4
"""Inches of one panel."""
_PIXELS = 480
"""The longer side of the copy that a panel shows: more is not seen at that size."""


def image_panels(
    explanation: Explanation,
    methods: Sequence[str] | None = None,
    layer: int | None = None,
    *,
    head: int | None = None,
    image: Any = None,
    colours: str = "viridis",
    smooth: bool = True,
) -> Figure:
    """The picture, and beside it what each method and reference says; each has its own scale, from 0 to its highest."""
    names = [*explanation.methods, *explanation.references] if methods is None else list(methods)
    scores = [explanation.scores(name, layer, head) for name in names]
    at = explanation.layers[-1] if layer is None else layer
    titles = [name if name in explanation.references else f"{name}, layer {at}" for name in names]
    highest = [highest_score(explanation, one) for one in scores]
    signed = [name in explanation.signed for name in names]
    captions = [
        f"{title}\n{extent(most, signed=both)}" for title, most, both in zip(titles, highest, signed, strict=True)
    ]
    picture = small(picture_of(explanation, image))
    pictures = [
        lit(explanation, one, picture, colours, most, smooth=smooth, signed=both)
        for one, most, both in zip(scores, highest, signed, strict=True)
    ]
    figure = sheet([picture, *pictures], [f"image\n{_answer(explanation)}", *captions], colours, None, signed=signed)
    said = judgement(explanation, explanation.row_name(), None)
    figure.supxlabel(fill(said, round(14 * figure.get_size_inches()[0])), fontsize=8, color="#55585f", **VERBATIM)
    return figure


def plot_image(
    explanation: Explanation,
    method: str | None = None,
    layer: int | None = None,
    *,
    head: int | None = None,
    ax: Axes | None = None,
    image: Any = None,
) -> Axes | Figure:
    """The overlay of one method in some axes; where neither is named, all panels."""
    if method is None and ax is None:
        return image_panels(explanation, layer=layer, head=head, image=image)
    name = method or explanation.default_method
    scores = explanation.scores(name, layer, head)
    picture = small(picture_of(explanation, image))
    axes = given_or_new(ax, 4, 4 * picture.height / picture.width + 0.4)
    most, signed = highest_score(explanation, scores), name in explanation.signed
    axes.imshow(np.asarray(lit(explanation, scores, picture, "viridis", most, signed=signed)))
    title = [row_name(explanation, name, layer, head), *([_answer(explanation)] if explanation.prediction else [])]
    axes.set_title("\n".join(title), fontsize=9, loc="left", **VERBATIM)
    axes.set_axis_off()
    return axes


def _answer(explanation: Explanation) -> str:
    """The prediction, and in another line the target where it is another."""
    prediction = explanation.prediction
    if prediction is None:
        return " "
    target = "" if prediction.target is None else f"\ntarget: {prediction.target}"
    return f"{prediction.answer}{target}"


def layer_strip(
    explanation: Explanation,
    method: str | None = None,
    *,
    head: int | None = None,
    image: Any = None,
    colours: str = "viridis",
    smooth: bool = True,
) -> Figure:
    """One method at every layer, from the input on, on one scale."""
    name = method or explanation.default_method
    explanation[name]  # a reference has no layers
    rows = [explanation.scores(name, layer, head) for layer in explanation.layers]
    most = max(highest_score(explanation, row) for row in rows)
    picture = small(picture_of(explanation, image))
    signed = name in explanation.signed
    pictures = [lit(explanation, row, picture, colours, most, smooth=smooth, signed=signed) for row in rows]
    titles = [f"{name}, layer {layer}" for layer in explanation.layers]
    return sheet(pictures, titles, colours, most, signed=[signed])


def small(picture: Image) -> Image:
    """A copy of the size that a panel shows."""
    small = picture.convert("RGB")
    small.thumbnail((_PIXELS, _PIXELS))
    return small


def extent(most: float, *, signed: bool) -> str:
    """How far the colours of a panel go."""
    return f"from −{most:.2g} to {most:.2g}" if signed else f"highest {most:.2g}"


def sheet(
    pictures: Sequence[Image],
    titles: Sequence[str],
    colours: str,
    highest: float | None,
    *,
    signed: Sequence[bool],
    columns: int | None = None,
) -> Figure:
    """Panels with their titles in rows, and a bar of colours for those with a sign and one for those without.

    `highest` is the score of the strongest colour; None where each panel has its own.
    """
    from matplotlib.figure import Figure

    columns = min(len(pictures), 6) if columns is None else columns
    rows = -(-len(pictures) // columns)
    width, height = pictures[0].size
    # A panorama or a tower must not make a figure of slivers.
    high = _WIDTH * min(max(height / width, 0.4), 1.6)
    lines = 1 + max(title.count("\n") for title in titles)
    figure = Figure(figsize=(columns * _WIDTH + 0.6, rows * (high + 0.25 + 0.2 * lines)), layout="constrained")
    figure.get_layout_engine().set(h_pad=0.04 * lines)  # type: ignore[union-attr, call-arg]
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax, picture, title in zip(axes, pictures, titles, strict=False):
        ax.imshow(np.asarray(picture))
        ax.set_title(title, fontsize=9, **VERBATIM)
        ax.set(xticks=[], yticks=[], frame_on=False)  # an axis that is off leaves no room for its title
    for ax in axes[len(pictures) :]:
        ax.set_axis_off()
    for both in sorted(set(signed)):
        _bar(figure, list(axes), colours, highest, signed=both)
    return figure


def _bar(figure: Figure, axes: list[Axes], colours: str, highest: float | None, *, signed: bool) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap

    shades = ScalarMappable(cmap=ListedColormap(colour_map(colours, signed=signed) / 255))
    bar = figure.colorbar(shades, ax=axes, aspect=30, shrink=0.8, pad=0.02)
    least, most = (f"−{highest:.2g}", f"{highest:.2g}") if highest is not None else ("opposes", "supports")
    if signed:
        bar.set_ticks([0, 0.5, 1], labels=[least, "0", most], fontsize=9)
    else:
        bar.set_ticks([0, 1], labels=["0", most if highest is not None else "highest"], fontsize=9)
    bar.outline.set_visible(False)
