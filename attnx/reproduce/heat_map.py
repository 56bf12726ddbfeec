"""Heat maps of CLS rows: x = tokens, y = layers with the last on top, one row of panels a method (Figures 2 and 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from attnx.errors import InputError
from attnx.explanation import Explanation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

COLOURS = "YlGnBu"
"""Light to dark in one order for every reader, colour-blind or not, and in print."""

_CELL = 0.42
"""Inches for one token or layer."""


def heat_maps(explanations: Sequence[Explanation], methods: Sequence[str], *, titles: bool = True) -> Figure:
    """One column of panels for each sentence, one row for each method.

    Each panel has its own scale, as in the paper: flow and rollout are of different size, and what is compared is
    where the weight lies.
    """
    from matplotlib.figure import Figure

    if not explanations:
        raise InputError("a figure needs at least one sentence")
    widths = [len(one.positions) * _CELL for one in explanations]
    layers = len(explanations[0].layers)
    longest = max(len(token) for one in explanations for token in one.tokens)
    label_room = 0.35 + 0.075 * longest
    panel = layers * _CELL
    figure = Figure(
        figsize=(sum(widths) + 1.35 * len(widths) + 0.4, len(methods) * (panel + label_room + 0.45)),
        layout="constrained",
    )
    panels = figure.subplots(len(methods), len(widths), width_ratios=widths, squeeze=False)
    for row, method in enumerate(methods):
        for column, explanation in enumerate(explanations):
            axes = panels[row, column]
            image = _panel(axes, explanation, method)
            bar = figure.colorbar(image, ax=axes, fraction=0.05, pad=0.03, aspect=18)
            bar.ax.tick_params(labelsize=7, length=2)
            bar.outline.set_visible(False)
            if column == 0:
                axes.set_ylabel(f"{_NAMES.get(method, method)}\nlayer", fontsize=9)
            if row == 0 and titles:
                axes.set_title(_verdict(explanation), fontsize=9, pad=7)
    return figure


_NAMES = {"raw": "raw attention", "rollout": "attention rollout", "flow": "attention flow"}


def _panel(axes: Axes, explanation: Explanation, method: str) -> AxesImage:
    scores = explanation[method]
    image = axes.imshow(
        scores, origin="lower", aspect="auto", cmap=COLOURS, vmin=0, vmax=max(float(scores.max()), 1e-9)
    )
    axes.set_xticks(range(len(explanation.positions)), explanation.tokens, rotation=90, fontsize=9)
    axes.set_yticks(range(len(explanation.layers)), [str(layer) for layer in explanation.layers], fontsize=8)
    axes.set_xticks(np.arange(len(explanation.positions) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(explanation.layers) + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1)
    axes.tick_params(which="both", length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    return image


def _verdict(explanation: Explanation) -> str:
    return f"predicted: {explanation.prediction}" if explanation.prediction else ""
