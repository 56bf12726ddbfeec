"""A report on pronouns to look at: rates by method and layer, beside chance and what needs no attention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from attnx.agreement.summary import Summary
from attnx.errors import InputError
from attnx.render.columns import TextBlock
from attnx.results.pronoun_report import Rates, Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FOOT = (
    "Shares of decided sentences, with the 95 % interval of a bootstrap over sentences. Candidates that tie to "
    "1e-9 are undecided."
)


def blocks(report: Report) -> Iterator[TextBlock]:
    """What was predicted, and a table for each question that applies to the data."""
    names = dict.fromkeys(str(report.provenance[key]) for key in ("model", "class") if key in report.provenance)
    title = ", ".join([f"Pronouns: {report.sentences:,} sentences of {report.source}", *names])
    yield TextBlock(title, lead=(_predictions(report),))
    for one in (report.right, report.implied):
        rest = f", {one.left_out:,} left out" if one.left_out else ""
        heading = f"Drawn most from {one.wanted} ({one.sentences:,} sentences{rest})"
        if one.sentences:
            yield TextBlock(heading, lines=list(_lines(one, report.layers)))
        else:
            yield TextBlock(heading, lead=("Does not apply: no sentence says which one that is.",))
    yield TextBlock(foot=(_FOOT,))


def rows(report: Report) -> list[dict[str, Any]]:
    """A row for each question, method and layer."""
    return [
        {"wanted": rates.wanted, "method": method, "layer": layer, **vars(cell)}
        for rates in (report.right, report.implied)
        for method, cells in rates.methods.items()
        for layer, cell in zip(report.layers, cells, strict=False)
    ] + [
        {"wanted": rates.wanted, "method": name, "layer": None, **vars(cell)}
        for rates in (report.right, report.implied)
        for name, cell in rates.references.items()
    ]


_METHOD_COLOURS = ("#999999", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
"""One for each method, in their order; told apart by colour-blind readers, too (Okabe & Ito)."""

_METHOD_MARKERS = "osD^vP*"
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
        colour = _METHOD_COLOURS[number % len(_METHOD_COLOURS)]
        axes.errorbar(
            place,
            means,
            yerr=np.maximum(np.stack([means - lows, highs - means]), 0),  # a bound may round beyond the mean
            color=colour,
            marker=_METHOD_MARKERS[number % len(_METHOD_MARKERS)],
            markersize=5,
            linewidth=1.5,
            elinewidth=1,
            label=name,
        )
    for number, (name, cell) in enumerate(rates.references.items(), start=len(rates.methods)):
        if cell.mean is not None:
            colour = _METHOD_COLOURS[number % len(_METHOD_COLOURS)]
            axes.axhline(100 * cell.mean, color=colour, linewidth=2, label=f"{name} (of no layer)")
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
        axes.bar(place, shares, width=width, color=_METHOD_COLOURS[number % len(_METHOD_COLOURS)])
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


def _predictions(report: Report) -> str:
    counts = ", ".join(f"{pronoun} {count:,}" for pronoun, count in report.predicted.items())
    right = ""
    if report.prediction.mean is not None:
        right = f" The prediction implies the right referent in {_share(report.prediction)}."
    return f"Predicted: {counts}. The pronouns have {report.mass:.1%} of the probability on average.{right}"


def _lines(rates: Rates, layers: Sequence[int]) -> Iterator[list[str]]:
    """The cells of the printed table, the head first; a column of ties for a method that has any."""
    tied = [name for name, cells in rates.methods.items() if any(cell.undefined for cell in cells)]
    columns = [column for name in rates.methods for column in ([name, "undecided"] if name in tied else [name])]
    yield ["layer", *columns]
    for row, layer in enumerate(layers):
        line = [str(layer)]
        for name, cells in rates.methods.items():
            line += [_share(cells[row]), *([str(cells[row].undefined)] if name in tied else [])]
        yield line
    blank = [""] * (len(columns) - 1)
    for name, cell in rates.references.items():
        yield [name, f"{_share(cell)}{_ties(cell)}", *blank]
    yield ["chance", "–" if rates.chance is None else f"{rates.chance:.1%}", *blank]
    for name, cell in rates.baselines.items():
        if cell.mean is None:
            continue
        yield [name, f"{_share(cell)}{_ties(cell)}", *blank]


def _ties(cell: Summary) -> str:
    return f", {cell.undefined:,} undecided" if cell.undefined else ""


def _share(cell: Summary) -> str:
    if cell.mean is None or cell.low is None or cell.high is None:
        return "–"
    return f"{cell.mean:.1%} ({100 * cell.low:.1f} to {100 * cell.high:.1f})"
