"""The rates of a report over the layers: lines with intervals, the baselines, and beneath, where any, the ties."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from attnx.errors import InputError
from attnx.probes.pronouns.rates import Rates

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from attnx.probes.pronouns.report import Report

COLOURS = ("#999999", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
"""One for each method, in their order; told apart by colour-blind readers, too (Okabe & Ito)."""

_MARKERS = "osD^vP*"
_BASELINES = {"nearest candidate": ":", "commonest pronoun's": "-."}


def curves(report: Report) -> Figure:
    """One column of panels for each question that applies to the data."""
    from matplotlib.figure import Figure

    asked = [one for one in (report.right, report.implied) if one.sentences]
    if not asked:
        raise InputError("there is nothing to draw: no sentence has an answer, or says what its pronouns imply")
    ties = any(cell.undefined for rates in asked for cells in rates.methods.values() for cell in cells)
    heights = (3.4, 1.0) if ties else (3.4,)
    figure = Figure(figsize=(5.2 * len(asked) + 0.4, 0.8 + sum(heights)), layout="constrained")
    panels = figure.subplots(len(heights), len(asked), height_ratios=heights, sharex=True, squeeze=False)
    for column, rates in enumerate(asked):
        _shares(panels[0, column], rates, report.layers)
        panels[0, column].set_title(f"drawn most from {rates.wanted}\n{rates.sentences:,} sentences", fontsize=10)
        if ties:
            _undecided(panels[1, column], rates, report.layers)
        panels[-1, column].set_xlabel("layer", fontsize=9)
    for axes, label in zip(panels[:, 0], ("% of decided sentences", "% undecided"), strict=False):
        axes.set_ylabel(label, fontsize=9)
    legend = dict(zip(*reversed(panels[0, -1].get_legend_handles_labels()), strict=True))
    figure.legend(legend.values(), legend, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def _shares(axes: Axes, rates: Rates, layers: tuple[int, ...]) -> None:
    for number, (name, cells) in enumerate(rates.methods.items()):
        means, lows, highs = (_percent([getattr(cell, key) for cell in cells]) for key in ("mean", "low", "high"))
        place = np.array(layers) + 0.12 * (number - (len(rates.methods) - 1) / 2)  # intervals beside each other
        colour = COLOURS[number % len(COLOURS)]
        axes.errorbar(
            place,
            means,
            yerr=np.stack([means - lows, highs - means]),
            color=colour,
            marker=_MARKERS[number % len(_MARKERS)],
            markersize=5,
            linewidth=1.5,
            elinewidth=1,
            label=name,
        )
    axes.axhline(100 * (rates.chance or 0), color="black", linewidth=1, linestyle="--", label="chance")
    for name, style in _BASELINES.items():
        mean = rates.baselines[name].mean
        if mean is not None:
            axes.axhline(100 * mean, color="black", linewidth=1, linestyle=style, label=name)
    axes.set_ylim(-2, 102)
    _plain(axes, layers)


def _undecided(axes: Axes, rates: Rates, layers: tuple[int, ...]) -> None:
    width = 0.8 / len(rates.methods)
    for number, cells in enumerate(rates.methods.values()):
        place = np.array(layers) + width * (number - (len(rates.methods) - 1) / 2)
        shares = [100 * cell.undefined / rates.sentences for cell in cells]
        axes.bar(place, shares, width=width, color=COLOURS[number % len(COLOURS)])
    axes.set_ylim(0, 100)
    _plain(axes, layers)


def _plain(axes: Axes, layers: tuple[int, ...]) -> None:
    axes.set_xticks(layers)
    axes.tick_params(labelsize=8)
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _percent(values: list[float | None]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """NaN where there is no number, which leaves a gap in the line."""
    return np.array([np.nan if value is None else 100 * value for value in values], dtype=np.float64)
