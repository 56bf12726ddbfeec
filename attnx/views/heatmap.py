"""Layers × positions as a heat map: x = tokens, y = layers with the last on top (the paper's Figures 2 and 3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from textwrap import fill
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from attnx.errors import ArgumentError
from attnx.registry import quoted
from attnx.results import Array, Explanation
from attnx.views.escaping import printable, token_label
from attnx.views.terminal import colour_map
from attnx.views.text import answered, judgement, seen_from

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

P = ParamSpec("P")
T = TypeVar("T")

LOOKS = (("#0072b2", "o"), ("#d55e00", "s"), ("#009e73", "^"), ("#cc79a7", "D"), ("#56b4e9", "v"), ("#e69f00", "P"))
"""Colours that the colour-blind tell apart (Okabe & Ito), and a mark each for print without colour."""

VERBATIM: dict[str, Any] = {"parse_math": False, "usetex": False}
"""For every text that comes from the input: a token may be a dollar sign, and is no formula."""


def verbatim(draw: Callable[P, T]) -> Callable[P, T]:
    """Draw without formulas: names of methods, titles and labels may come from a file, and hold dollar signs."""

    @wraps(draw)
    def drawn(*args: P.args, **options: P.kwargs) -> T:
        from matplotlib import rc_context

        with rc_context({"text.parse_math": False, "text.usetex": False}):
            return draw(*args, **options)

    return drawn


def given_or_new(ax: Axes | None, width: float, height: float) -> Axes:
    """The caller's axes as they are, else the only axes of a new figure of that size in inches.

    A new figure is pyplot's, so that notebooks and windows show it by themselves; pyplot draws without a display, too.
    """
    if ax is not None:
        if not hasattr(ax, "get_figure"):
            raise ArgumentError(f"ax must be axes of matplotlib, found {quoted(ax)}; plt.subplots() makes some")
        return ax
    from matplotlib import pyplot

    return pyplot.figure(figsize=(width, height), layout="constrained").subplots()


def without_frame(axes: Axes) -> None:
    axes.tick_params(which="both", length=0)
    for side in axes.spines.values():
        side.set_visible(False)


_CHARACTERS_AN_INCH = 15
"""Of the small letters of a caption."""


def caption(
    axes: Axes, explanation: Explanation, method: str | None, layer: int | None = None, head: int | None = None
) -> None:
    """The prediction and the weightiest remarks beneath the axes of a row; what the axes say there stays above."""
    name = explanation.row_name(method, layer, head)
    width = axes.get_window_extent().width / axes.figure.dpi
    lines = [answered(explanation).removesuffix(" · "), judgement(explanation, name, layer)]
    said = "\n".join(fill(line, max(40, round(_CHARACTERS_AN_INCH * width))) for line in lines if line)
    before = axes.get_xlabel()
    axes.set_xlabel(f"{before}\n{said}" if before else said, fontsize=8, loc="left", color="#55585f", **VERBATIM)


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
    every = [position.index for position in explanation.positions]
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
    named = [printable(column) for column in columns[::step]]
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
