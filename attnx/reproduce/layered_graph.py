"""A sentence as a layered graph: tokens at the left, a column of nodes a layer, line width = weight (Figure 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = np.ndarray[Any, np.dtype[np.float64]]

LINE, HIGHLIGHT, NODE = "#5b7aa6", "#c85200", "#30333a"
"""Blue and orange, which are told apart by everyone."""
THICKEST = 5.0
FAINTEST = 0.02
"""Weights below this share of the largest are not drawn; they would be a grey veil."""


def layered_graphs(tokens: Sequence[str], panels: Mapping[str, Array], *, position: int = 0) -> Figure:
    """One panel for each named weights[layer, query, key], side by side.

    A line from a node to one of the column to its left has the width of the weight. For relevance of the input
    (rollout, flow), the line's left end names the input position. What leaves a node is drawn as shares of 1, so that
    widths compare between panels. The lines of the explained `position` are highlighted.
    """
    from matplotlib.figure import Figure

    shares = {name: weights / np.maximum(weights.sum(-1, keepdims=True), 1e-12) for name, weights in panels.items()}
    largest = max(float(weights.max()) for weights in shares.values())
    layers = next(iter(panels.values())).shape[0]
    label_room = 0.25 + 0.085 * max(map(len, tokens))
    width = 0.62 * layers + label_room + 0.3
    figure = Figure(figsize=(width * len(panels), 0.42 * len(tokens) + 0.95), layout="constrained")
    for axes, (name, weights) in zip(figure.subplots(1, len(panels), squeeze=False)[0], shares.items(), strict=True):
        _draw(axes, tokens, weights / largest, position)
        axes.set_title(name, fontsize=11)
    return figure


def _draw(axes: Axes, tokens: Sequence[str], weights: Array, position: int) -> None:
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba

    layers, length, _ = weights.shape
    # Strong lines above faint ones, and those of the explained position above all.
    edges = sorted(np.argwhere(weights > FAINTEST).tolist(), key=lambda edge: weights[tuple(edge)])
    edges.sort(key=lambda edge: edge[1] == position)
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
    columns, rows = np.meshgrid(np.arange(layers + 1), np.arange(length))
    axes.scatter(columns, rows, s=16, color=NODE, zorder=3)
    axes.set_yticks(range(length), tokens, fontsize=10)
    axes.set_xticks(range(layers + 1), ["input", *map(str, range(1, layers + 1))], fontsize=8)
    axes.set_xlabel("layer", fontsize=9)
    axes.set_ylim(length - 0.5, -0.5)
    axes.set_xlim(-0.3, layers + 0.3)
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
