"""An input as a layered graph: tokens at the left, a column of nodes a layer, line width = weight (Figure 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from attnx.errors import ChoiceError
from attnx.results import Array, Explanation
from attnx.views.escaping import token_label
from attnx.views.heatmap import VERBATIM, given_or_new, verbatim, without_frame
from attnx.views.terminal import FOR
from attnx.views.text import reduction_note, strongest

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE, HIGHLIGHT, NODE = "#5b7aa6", FOR, "#30333a"
"""Blue and orange, which are told apart by everyone."""
THICKEST = 5.0
FAINTEST = 0.02
"""Weights below this share of the largest are not drawn; they would be a grey veil."""
MOST_LINES = 4000
MOST_POSITIONS = 60
"""More lines or positions than this cannot be told apart; the strongest are drawn, and the plot says so."""

_WIDEST, _HIGHEST = 24.0, 14.0
"""Inches for all layers and all positions; more of them stand closer together."""


@verbatim
def plot_graph(
    explanation: Explanation, method: str | None = None, *, head: int | None = None, ax: Axes | None = None
) -> Axes:
    """The map of `method` at every layer. It needs `explain(..., all_queries=True)`.

    Where a method is of one layer alone, a line joins neighbouring layers. Of the others its left end names the input
    position that the relevance is of. Lines of the explained position are highlighted.
    """
    name = method or explanation.default_method
    weights = explanation.matrix(name, head)
    if (weights < 0).any():
        raise ChoiceError(f"lines have widths, and {name} has scores below 0; use plot_layers, or another method")
    # Those that matter to the explained position, and that position itself.
    standing = explanation.scores(name, head=head).copy()
    standing[explanation.position] = np.inf
    kept = strongest(standing, MOST_POSITIONS)
    tokens = [token_label(explanation.positions[index], explanation.texts) for index in kept]
    shares = node_shares(weights)[:, kept][:, :, kept]
    below = name in explanation.local and explanation.layers[0] > 1
    axes = given_or_new(ax, *graph_size(tokens, len(explanation.layers)))
    lines = draw_graph(
        axes,
        tokens,
        shares / max(float(shares.max()), 1e-12),
        position=kept.index(explanation.position),
        layers=explanation.layers,
        inputs=str(explanation.layers[0] - 1) if below else "input",
    )
    notes = [reduction_note(len(kept), len(explanation.positions), "positions"), reduction_note(*lines, "lines")]
    axes.set_title(name, fontsize=11)
    axes.set_xlabel("\n".join(["layer", edges_are(explanation, name), *filter(None, notes)]), fontsize=9)
    return axes


def edges_are(explanation: Explanation, method: str) -> str:
    """What a line of the graph means: a step between layers, or what of an input has come as far as a node."""
    if method in explanation.local:
        return "a line: what a node attends to in the layer below"
    return "a line: the input at its left end, as far as it reaches the node\nat its right end; no step between layers"


def node_shares(weights: Array) -> Array:
    """What leaves a node as shares of 1, so that widths compare between methods."""
    shares: Array = weights / np.maximum(weights.sum(-1, keepdims=True), 1e-12)
    return shares


def graph_size(tokens: Sequence[str], layers: int) -> tuple[float, float]:
    """Width and height in inches at which lines and tokens are easy to tell apart."""
    token_room = 0.25 + 0.085 * max(map(len, tokens), default=0)
    return min(0.62 * layers, _WIDEST) + token_room + 0.3, min(0.42 * len(tokens), _HIGHEST) + 0.95


def draw_graph(
    axes: Axes,
    tokens: Sequence[str],
    weights: Array,
    *,
    position: int,
    layers: Sequence[int],
    inputs: str = "input",
) -> tuple[int, int]:
    """Draw weights[layer, query, key] between 0 and 1; how many lines were drawn, and how many there are."""
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
