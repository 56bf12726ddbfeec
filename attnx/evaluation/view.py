"""Plots of evaluations, and the notes beneath their tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from attnx.evaluation.task import LEFT_OUT
from attnx.views import LOOKS, TextBlock, axes_or_new, draw_heat_map

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from attnx.evaluation.compare import Comparison
    from attnx.evaluation.faithfulness import Faithfulness
    from attnx.evaluation.head_atlas import HeadAtlas
    from attnx.evaluation.table import EvaluationTable

_NOTES = 5
"""How many notes are printed; of a large file every text may have one of its own."""
_CELL = 0.38
"""Inches for a head or a layer."""
_NUMBERED = 12
"""Up to so many heads there is room for the number in each cell."""


def note_blocks(notes: Mapping[str, int], inputs: int) -> list[TextBlock]:
    """The notes of many explanations, the commonest first, with how many have each; no block where there are none."""
    names = [
        f"{note} ({f'{count:,} besides these' if note.startswith(LEFT_OUT) else f'in {count:,} of'} {inputs:,})"
        for note, count in list(notes.items())[:_NOTES]
    ]
    more = [f"… and {len(notes) - _NOTES:,} other notes"] if len(notes) > _NOTES else []
    return [TextBlock(foot=(*names, *more))] if names else []


def plot_means(
    table: EvaluationTable, ax: Axes | None = None, column: str | None = None, names: Sequence[str] | None = None
) -> Axes:
    """A line for each method, the best on top: its mean with the interval, filled where it is above chance.

    `names` are the rows from the bottom up, where several plots share them.
    """
    names = table.ranking(column)[::-1] if names is None else names
    ax = axes_or_new(ax, 6.4, 0.8 + 0.28 * len(names))
    for row, name in enumerate(names):
        if name not in table.methods:
            continue
        cell = table.cell(name, column)
        above = table.baseline is None or table.significance(name, column) == "above chance"
        colour = LOOKS[0][0] if above else "#888888"
        ax.hlines(row, cell.low or 0.0, cell.high or 0.0, color=colour, linewidth=1.6)
        fill = colour if above else "white"
        ax.plot([cell.mean or 0.0], [row], color=colour, marker="o", markersize=5, markerfacecolor=fill)
    if table.baseline is not None:
        chance = table.cell(table.baseline, column).mean or 0.0
        ax.axvline(chance, color="#666666", linestyle="--", linewidth=1)
        ax.text(chance, len(names) - 0.4, f" {table.baseline}", color="#666666", fontsize=8, va="bottom")
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(-0.7, len(names) + 0.3)
    ax.set_xlabel(table.label(column or table.columns[0]))
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_layers_of(
    table: EvaluationTable, columns: Mapping[int, str], ax: Axes, *, title: str = "", label: str = ""
) -> Axes:
    """Means over the layers (layer → column), a line for each method with its 95 % interval."""
    for index, method in enumerate(table.methods):
        cells = [(layer, table.cell(method, column)) for layer, column in columns.items()]
        defined = [(layer, cell) for layer, cell in cells if cell.mean is not None]
        colour, mark = LOOKS[index % len(LOOKS)]
        layers = [layer for layer, _ in defined]
        mean, low, high = ([getattr(cell, end) for _, cell in defined] for end in ("mean", "low", "high"))
        ax.plot(layers, mean, color=colour, marker=mark, markersize=4, label=method)
        ax.fill_between(layers, low, high, color=colour, alpha=0.15, linewidth=0)
    layers = list(columns)
    ax.set_title(title)
    ax.set_xlabel("layer")
    ax.set_ylabel(label)
    ax.set_xticks(layers if len(layers) <= 12 else layers[::4])
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_comparison(comparison: Comparison, ax: Axes | None = None, reference: str | None = None) -> Any:
    def panel(name: str, panel_ax: Axes) -> Axes:
        columns = dict(zip(comparison.layers, comparison.columns_of(name), strict=True))
        plot_layers_of(comparison, columns, panel_ax, title=f"agreement with {name}", label=comparison.measure)
        if comparison.measure != "top_k":
            panel_ax.axhline(0, color="#888888", linewidth=0.8)
        return panel_ax

    if ax is not None or reference is not None:
        name = reference or comparison.references[0]
        comparison.columns_of(name)  # an unknown one is an error before a figure is made
        return panel(name, axes_or_new(ax, 4.8, 3.4))
    from matplotlib import pyplot

    count = len(comparison.references)
    _, panels = pyplot.subplots(1, count, figsize=(4.2 * count, 3.4), sharey=True, squeeze=False, layout="constrained")
    for panel_ax, name in zip(panels[0], comparison.references, strict=True):
        panel(name, panel_ax)
    return panels[0]


def plot_curves(faithfulness: Faithfulness, axes: Any = None) -> Any:
    if axes is None:
        from matplotlib import pyplot

        _, axes = pyplot.subplots(1, 2, figsize=(9.6, 3.4), sharey=True, layout="constrained")
    titles = ("deletion: the most relevant go first", "insertion: the most relevant come first")
    shares, baseline = np.linspace(0, 100, 11), faithfulness.baseline or ""
    for ax, curves, title in zip(axes, (faithfulness.deletion, faithfulness.insertion), titles, strict=True):
        ax.plot(shares, curves[baseline], color="#666666", linestyle="--", label="random order")
        for index, name in enumerate(faithfulness.methods):
            colour, mark = LOOKS[index % len(LOOKS)]
            ax.plot(shares, curves[name], color=colour, marker=mark, markersize=3.5, label=name)
        ax.set_title(title)
        ax.set_xlabel("% of positions")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel(f"{faithfulness.score} of the target")
    axes[1].legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return axes


def plot_atlas(atlas: HeadAtlas, ax: Axes | None = None, by: str | None = None) -> Any:
    names = list(atlas.values) if by is None and ax is None else [by or next(iter(atlas.values))]
    if ax is not None:
        panels = [ax]
    else:
        from matplotlib import pyplot

        size = (len(names) * (atlas.heads * _CELL + 1.6), len(atlas.layers) * _CELL + 1.2)
        panels = list(pyplot.subplots(1, len(names), figsize=size, squeeze=False, layout="constrained")[1][0])
    for panel, name in zip(panels, names, strict=True):
        panel.set_facecolor("#dddddd")  # undefined
        draw_heat_map(
            panel,
            atlas.grid(name),
            list(map(str, range(atlas.heads))),
            list(map(str, atlas.layers)),
            signed=name in atlas.references and atlas.measure != "top_k",
            rotation=0,
            decimals=2 if atlas.heads <= _NUMBERED else None,
        )
        panel.set_title(atlas.title(name), fontsize=9)
        panel.set_xlabel("head")
        panel.set_ylabel("layer")
    return panels[0] if ax is not None or by is not None else np.array(panels)
