"""A comparison as lines over the layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attnx.errors import ChoiceError
from attnx.registry import unknown
from attnx.render.plot.axes import given_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from attnx.comparison.comparison import Comparison

LOOKS = (("#0072b2", "o"), ("#d55e00", "s"), ("#009e73", "^"), ("#cc79a7", "D"), ("#56b4e9", "v"), ("#e69f00", "P"))
"""Colours that the colour-blind tell apart (Okabe & Ito), and a mark each for print without colour."""


def plot(comparison: Comparison, ax: Axes | None = None, reference: str | None = None) -> Any:
    if reference is not None and reference not in comparison.references:
        raise ChoiceError(unknown("reference", reference, comparison.references))
    if ax is not None or reference is not None:
        return _panel(comparison, reference or comparison.references[0], given_or_new(ax, 4.8, 3.4))
    from matplotlib import pyplot

    count = len(comparison.references)
    _, panels = pyplot.subplots(1, count, figsize=(4.2 * count, 3.4), sharey=True, squeeze=False, layout="constrained")
    for one, name in zip(panels[0], comparison.references, strict=True):
        _panel(comparison, name, one)
    return panels[0]


def _panel(comparison: Comparison, reference: str, ax: Axes) -> Axes:
    for number, method in enumerate(comparison.methods):
        cells = [(layer, comparison.cell(reference, method, layer)) for layer in comparison.layers]
        known = [(layer, cell) for layer, cell in cells if cell.mean is not None]
        colour, mark = LOOKS[number % len(LOOKS)]
        layers = [layer for layer, _ in known]
        mean, low, high = ([getattr(cell, end) for _, cell in known] for end in ("mean", "low", "high"))
        ax.plot(layers, mean, color=colour, marker=mark, markersize=4, label=method)
        ax.fill_between(layers, low, high, color=colour, alpha=0.15, linewidth=0)
    if comparison.measure != "top_k":
        ax.axhline(0, color="#888888", linewidth=0.8)
    ax.set_title(f"agreement with {reference}")
    ax.set_xlabel("layer")
    ax.set_ylabel(comparison.measure)
    ax.set_xticks(comparison.layers if len(comparison.layers) <= 12 else comparison.layers[::4])
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    return ax
