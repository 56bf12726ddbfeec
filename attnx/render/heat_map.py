"""Layers × positions as a heat map: x = tokens, y = layers with the last on top (the paper's Figures 2 and 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from attnx.render.axes import VERBATIM, given_or_new, without_frame
from attnx.render.caption import caption
from attnx.render.colours import colour_map
from attnx.render.plain_text import seen_from
from attnx.render.printable import printable, token_label
from attnx.results.explanation import Explanation
from attnx.results.result import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

CELL = 0.42
"""Inches for one token or layer."""

_WIDEST, _HIGHEST = 24.0, 10.0
"""Inches; what needs more is drawn in narrower cells."""
_MOST_LABELS = 80
"""More tokens than this would overprint each other; every second, third … is named then."""


def plot_heat_map(
    explanation: Explanation,
    method: str | None = None,
    *,
    special: bool = False,
    content_only: bool = False,
    head: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Every layer of `method` as a row, with a scale beside it; special tokens are left out unless asked for."""
    name = method or explanation.default_method
    kept = _kept(explanation, special=special, content_only=content_only)
    width = min(CELL * len(kept), _WIDEST) + 1.4
    height = min(CELL * len(explanation.layers), _HIGHEST) + label_room(explanation.tokens) + 0.6
    axes = given_or_new(ax, width, height)
    draw_layers(axes, explanation, name, head=head, kept=kept)
    axes.set_title(f"{name}, {seen_from(explanation)}", fontsize=9, loc="left", **VERBATIM)
    axes.set_ylabel("layer", fontsize=9)
    caption(axes, explanation, name, head=head)
    return axes


def draw_layers(
    axes: Axes, explanation: Explanation, method: str, *, head: int | None = None, kept: Sequence[int] | None = None
) -> None:
    """The heat map alone, for a panel of a larger figure; of all positions, or of those that are kept."""
    explanation[method]  # a reference has no layers
    places = list(range(len(explanation.positions))) if kept is None else list(kept)
    scores = np.stack([explanation.scores(method, layer, head)[places] for layer in explanation.layers])
    tokens = [token_label(explanation.positions[index], explanation.texts) for index in places]
    rows = [str(layer) for layer in explanation.layers]
    draw_heat_map(axes, scores, tokens, rows, signed=method in explanation.signed)


def _kept(explanation: Explanation, *, special: bool, content_only: bool) -> list[int]:
    """The positions to draw; an input of nothing but special tokens is drawn as it is."""
    every = [one.index for one in explanation.positions]
    if content_only:
        found = sorted(index for word in explanation.content_words for index in word.positions)
    else:
        found = every if special else explanation.content
    return found or every


def draw_heat_map(
    axes: Axes, scores: Array, columns: Sequence[str], rows: Sequence[str], *, signed: bool = False
) -> AxesImage:
    """rows × columns, the first row at the bottom, with a scale of its own from 0; signed on both sides of it."""
    most = max(float(abs(scores).max(initial=0)), 1e-9)
    image = axes.imshow(
        scores,
        origin="lower",
        aspect="auto",
        interpolation="nearest",  # a cell of a long text keeps its own colour
        cmap=colour_map(signed=signed),
        vmin=-most if signed else 0,
        vmax=most,
    )
    step = -(-len(columns) // _MOST_LABELS)
    named = [printable(one) for one in columns[::step]]
    axes.set_xticks(range(0, len(columns), step), named, rotation=90, fontsize=9, **VERBATIM)
    axes.set_yticks(range(len(rows)), rows, fontsize=8)
    if step == 1:
        axes.set_xticks(np.arange(len(columns) + 1) - 0.5, minor=True)
        axes.set_yticks(np.arange(len(rows) + 1) - 0.5, minor=True)
        axes.grid(which="minor", color="white", linewidth=1)
    without_frame(axes)
    scale = axes.figure.colorbar(image, ax=axes, fraction=0.05, pad=0.03, aspect=18)
    scale.ax.tick_params(labelsize=7, length=2)
    scale.outline.set_visible(False)
    return image


def label_room(tokens: Sequence[str]) -> float:
    """Inches that the longest token takes when it is written upwards."""
    return 0.35 + 0.075 * max(map(len, tokens), default=0)
