"""Plots: layers × positions as a heat map (the paper's Figures 2 and 3) and as a layered graph (Figure 1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from textwrap import fill
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from attnx.errors import ArgumentError, ChoiceError
from attnx.registry import quoted
from attnx.results import Array, Explanation, chosen_method, layered_method
from attnx.views.escaping import printable, token_label
from attnx.views.terminal import FOR, colour_map
from attnx.views.text import answered, judgement, reduction_note, seen_from, strongest

if TYPE_CHECKING:
    from matplotlib.axes import Axes

P = ParamSpec("P")
T = TypeVar("T")

LOOKS = (("#0072b2", "o"), ("#d55e00", "s"), ("#009e73", "^"), ("#cc79a7", "D"), ("#56b4e9", "v"), ("#e69f00", "P"))
"""Colours that the colour-blind can distinguish (Okabe & Ito), each with a marker for print without colour."""
VERBATIM: dict[str, Any] = {"parse_math": False, "usetex": False}
"""For every text that comes from the input: a token may be a dollar sign, which must not start a formula."""
_CAPTION: dict[str, Any] = {"fontsize": 8, "color": "#55585f", **VERBATIM}
_CHARACTERS_PER_INCH = 15
"""Of the small letters of a caption."""


def verbatim(draw: Callable[P, T]) -> Callable[P, T]:
    """Draw without formulas: names of methods, titles and labels may come from a file and contain dollar signs."""

    @wraps(draw)
    def drawn(*args: P.args, **options: P.kwargs) -> T:
        from matplotlib import rc_context

        with rc_context({"text.parse_math": False, "text.usetex": False}):
            return draw(*args, **options)

    return drawn


def axes_or_new(ax: Axes | None, width: float, height: float) -> Axes:
    """The caller's axes, or the only axes of a new pyplot figure of that size in inches, which notebooks display."""
    if ax is not None:
        if not hasattr(ax, "get_figure"):
            raise ArgumentError(f"ax must be matplotlib axes, found {quoted(ax)}; plt.subplots() makes some")
        return ax
    from matplotlib import pyplot

    return pyplot.figure(figsize=(width, height), layout="constrained").subplots()


def without_frame(axes: Axes) -> None:
    axes.tick_params(which="both", length=0)
    for side in axes.spines.values():
        side.set_visible(False)


def caption(
    axes: Axes, explanation: Explanation, method: str | None, layer: int | None = None, head: int | None = None
) -> None:
    """The prediction and the main warnings beneath the axes, under what the axes already say there."""
    name = chosen_method(explanation, method, layer, head)
    width = axes.get_window_extent().width / axes.figure.dpi
    lines = [answered(explanation).removesuffix(" · "), judgement(explanation, name, layer)]
    wrapped = [fill(line, max(40, round(_CHARACTERS_PER_INCH * width))) for line in lines if line]
    axes.set_xlabel("\n".join(filter(None, [axes.get_xlabel(), *wrapped])), loc="left", **_CAPTION)


def figure_caption(figure: Any, text: str) -> None:
    """Wrapped text beneath a whole figure."""
    figure.supxlabel(fill(text, round(14 * figure.get_size_inches()[0])), **_CAPTION)


CELL = 0.42
"""Inches for one token or layer."""
_WIDEST, _HIGHEST = 24.0, 10.0
"""Inches; larger matrices are drawn in narrower cells."""
_MOST_LABELS = 80
"""More tokens than this would overprint each other; then every second, third … has a label."""


def plot_heat_map(
    explanation: Explanation,
    method: str | None = None,
    *,
    special: bool = False,
    content_only: bool = False,
    head: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Every layer of `method` as a row, with a colour bar; special tokens are left out by default."""
    name = layered_method(explanation, method)
    columns = list(range(len(explanation.positions)))
    if content_only:
        columns = sorted(index for word in explanation.content_words for index in word.positions) or columns
    elif not special:
        columns = explanation.content or columns
    width = min(CELL * len(columns), _WIDEST) + 1.4
    height = min(CELL * len(explanation.layers), _HIGHEST) + label_room(explanation.tokens) + 0.6
    axes = axes_or_new(ax, width, height)
    draw_layers(axes, explanation, name, head=head, columns=columns)
    axes.set_title(f"{name}, {seen_from(explanation)}", fontsize=9, loc="left", **VERBATIM)
    axes.set_ylabel("layer", fontsize=9)
    caption(axes, explanation, name, head=head)
    return axes


def draw_layers(
    axes: Axes, explanation: Explanation, method: str, *, head: int | None = None, columns: Sequence[int] | None = None
) -> None:
    """The heat map alone, for a panel of a larger figure; of all positions unless `columns` selects some."""
    explanation[method]  # methods without layers are refused
    indices = list(range(len(explanation.positions)) if columns is None else columns)
    scores = np.stack([explanation.scores(method, layer, head)[indices] for layer in explanation.layers])
    tokens = [token_label(explanation.positions[index], explanation.texts) for index in indices]
    layers = [str(layer) for layer in explanation.layers]
    draw_heat_map(axes, scores, tokens, layers, signed=explanation.attributions[method].signed)


def draw_heat_map(
    axes: Axes,
    scores: Array,
    columns: Sequence[str],
    rows: Sequence[str],
    *,
    signed: bool | None = None,
    origin: str = "lower",
    rotation: float = 90,
    decimals: int | None = None,
    colour_bar: bool = True,
) -> None:
    """Colour `scores[row, column]` on a scale from 0, or of `signed` scores on both sides of it.

    Args:
        signed: by default whether any score is negative.
        origin: "lower" has the first row at the bottom, "upper" at the top.
        rotation: of the labels of the columns, in degrees.
        decimals: write each score into its cell with so many decimals.
        colour_bar: show the scale beside the axes.
    """
    most = max(float(np.nanmax(abs(scores), initial=0)), 1e-9)
    signed = bool((scores < 0).any()) if signed is None else signed
    image = axes.imshow(
        scores,
        origin=origin,  # type: ignore[arg-type]
        aspect="auto",
        interpolation="nearest",  # in long texts, too, each cell keeps its own colour
        cmap=colour_map(signed=signed),
        vmin=-most if signed else 0,
        vmax=most,
    )
    step = -(-len(columns) // _MOST_LABELS)
    labels = [printable(column) for column in columns[::step]]
    alignment = "right" if 0 < rotation < 90 else "center"
    axes.set_xticks(range(0, len(columns), step), labels, rotation=rotation, ha=alignment, fontsize=9, **VERBATIM)
    axes.set_yticks(range(len(rows)), list(map(printable, rows)), fontsize=9, **VERBATIM)
    if step == 1:
        axes.set_xticks(np.arange(len(columns) + 1) - 0.5, minor=True)
        axes.set_yticks(np.arange(len(rows) + 1) - 0.5, minor=True)
        axes.grid(which="minor", color="white", linewidth=1)
    if decimals is not None:
        for (row, column), score in np.ndenumerate(scores):
            ink = "1" if abs(score) > 0.6 * most else "0.2"
            label = "–" if np.isnan(score) else f"{score:.{decimals}f}"
            axes.text(column, row, label, ha="center", va="center", fontsize=8, color=ink)
    without_frame(axes)
    if colour_bar:
        scale = axes.figure.colorbar(image, ax=axes, fraction=0.05, pad=0.03, aspect=18)
        scale.ax.tick_params(labelsize=7, length=2)
        scale.outline.set_visible(False)


def label_room(tokens: Sequence[str]) -> float:
    """Inches that the longest token takes when it is written upwards."""
    return 0.35 + 0.075 * max(map(len, tokens), default=0)


LINE, HIGHLIGHT, NODE = "#5b7aa6", FOR, "#30333a"
"""Blue and orange, which everyone can distinguish."""
THICKEST = 5.0
FAINTEST = 0.02
"""Weights below this share of the largest are not drawn; they would be a grey veil."""
MOST_LINES = 4000
MOST_POSITIONS = 60
"""More lines or positions than this are illegible; the strongest are drawn, and the plot says so."""
_GRAPH_WIDEST, _GRAPH_HIGHEST = 24.0, 14.0
"""Inches for all layers and all positions."""


@verbatim
def plot_graph(
    explanation: Explanation, method: str | None = None, *, head: int | None = None, ax: Axes | None = None
) -> Axes:
    """The matrix of `method` at every layer as a graph: a column of nodes for each layer, line width = weight. It
    needs `explain(..., all_queries=True)`.

    Lines of a single-layer method join neighbouring layers. Lines of other methods start at the input position that the
    relevance belongs to. Lines of the explained position are highlighted.
    """
    name = layered_method(explanation, method)
    weights = explanation.matrix(name, head)
    if (weights < 0).any():
        raise ChoiceError(
            f"line widths cannot show the negative scores of {name}; use plot_layers, or a method without signs"
        )
    # Those that matter to the explained position, and that position itself.
    relevance = explanation.scores(name, head=head).copy()
    relevance[explanation.position] = np.inf
    kept = strongest(relevance, MOST_POSITIONS)
    tokens = [token_label(explanation.positions[index], explanation.texts) for index in kept]
    shares = node_shares(weights)[:, kept][:, :, kept]
    single_layer = explanation.attributions[name].single_layer
    axes = axes_or_new(ax, *graph_size(tokens, len(explanation.layers)))
    lines = draw_graph(
        axes,
        tokens,
        shares / max(float(shares.max()), 1e-12),
        position=kept.index(explanation.position),
        layers=explanation.layers,
        inputs=str(explanation.layers[0] - 1) if single_layer and explanation.layers[0] > 1 else "input",
    )
    meaning = (
        "a line: what a node attends to in the layer below"
        if single_layer
        else "a line: the input at its left end, as far as it reaches the node\n"
        "at its right end; no step between layers"
    )
    notes = [reduction_note(len(kept), len(explanation.positions), "positions"), reduction_note(*lines, "lines")]
    axes.set_title(name, fontsize=11)
    axes.set_xlabel("\n".join(["layer", meaning, *filter(None, notes)]), fontsize=9)
    return axes


def node_shares(weights: Array) -> Array:
    """The weights of each node as shares of 1, so that widths are comparable between methods."""
    shares: Array = weights / np.maximum(weights.sum(-1, keepdims=True), 1e-12)
    return shares


def graph_size(tokens: Sequence[str], layers: int) -> tuple[float, float]:
    """Width and height in inches at which lines and tokens are legible."""
    token_room = 0.25 + 0.085 * max(map(len, tokens), default=0)
    return min(0.62 * layers, _GRAPH_WIDEST) + token_room + 0.3, min(0.42 * len(tokens), _GRAPH_HIGHEST) + 0.95


def draw_graph(
    axes: Axes,
    tokens: Sequence[str],
    weights: Array,
    *,
    position: int,
    layers: Sequence[int],
    inputs: str = "input",
) -> tuple[int, int]:
    """Draw weights[layer, query, key] between 0 and 1; return how many lines were drawn, and how many there are."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba

    depth, length, _ = weights.shape
    array = np.argwhere(weights > FAINTEST)
    edges = [array[index].tolist() for index in strongest(weights[tuple(array.T)], MOST_LINES)]
    # Strong lines above faint ones, and those of the explained position above all.
    edges.sort(key=lambda edge: (edge[1] == position, weights[tuple(edge)]))
    shares = [float(weights[layer, query, key]) for layer, query, key in edges]
    lines = LineCollection(
        [[(layer, key), (layer + 1, query)] for layer, query, key in edges],
        linewidths=[THICKEST * share for share in shares],
        colors=[
            to_rgba(HIGHLIGHT, 0.95) if query == position else to_rgba(LINE, 0.2 + 0.6 * share)
            for (_, query, _), share in zip(edges, shares, strict=True)
        ],
        capstyle="round",
    )
    axes.add_collection(lines)
    columns, rows = np.meshgrid(np.arange(depth + 1), np.arange(length))
    axes.scatter(columns, rows, s=16, color=NODE, zorder=3)
    axes.set_yticks(range(length), tokens, fontsize=10, **VERBATIM)
    axes.set_xticks(range(depth + 1), [inputs, *map(str, layers)], fontsize=8)
    axes.set_xlabel("layer", fontsize=9)
    axes.set_ylim(length - 0.5, -0.5)
    axes.set_xlim(-0.3, depth + 0.3)
    without_frame(axes)
    return len(edges), len(array)
