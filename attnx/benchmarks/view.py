"""Known answers: explainers down, suites across, each with its interval, and chance above them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attnx.benchmarks.result import CHANCE, BenchmarkTable
from attnx.evaluation import MARKS
from attnx.statistics import Summary
from attnx.views import LOOKS, PlainTable, Shown, TextBlock, decimals, number

_ROW, _PANEL = 0.24, 3.0
"""Inches for an explainer and for a suite."""


def truth_blocks(truth: BenchmarkTable) -> list[TextBlock]:
    return [TextBlock(truth.heading(), lead=truth.legend(), lines=list(lines(truth)), foot=truth.foot())]


def truth_rows(truth: BenchmarkTable) -> list[dict[str, Any]]:
    """A row for each suite, explainer (or fixed order), and metric."""
    return [
        {"suite": suite, "explainer": name, "metric": metric, **vars(truth.cell(name, suite, metric))}
        for suite in truth.suites
        for name in (*truth.orders[suite], *truth.values[suite])
        for metric in truth.metrics[suite]
    ]


def lines(truth: BenchmarkTable) -> Iterator[list[str]]:
    """The head, then chance and the fixed orders, then all explainers, the best first."""
    means = truth.mean(CHANCE) is not None
    yield ["", *(head for suite in truth.suites for head in _head(truth, suite)), *(["mean"] if means else [])]
    orders = dict.fromkeys(name for suite in truth.suites for name in truth.orders[suite])
    for name in (*orders, *truth.explainers):
        cells = [cell for suite in truth.suites for cell in _cells(truth, name, suite)]
        yield [name, *cells, *([_interval(truth.mean(name))] if means else [])]


def plot_truth(truth: BenchmarkTable, axes: Any = None) -> Any:
    names = [*reversed(truth.explainers)]
    if axes is None:
        from matplotlib import pyplot

        size = (1.6 + _PANEL * len(truth.suites), 1.1 + _ROW * len(names))
        figure, panels = pyplot.subplots(1, len(truth.suites), figsize=size, sharey=True, squeeze=False)
        figure.set_layout_engine("constrained")
        axes = panels[0]
    colour, mark = LOOKS[0]
    for ax, suite in zip(axes, truth.suites, strict=True):
        chance = truth.cell(CHANCE, suite).mean
        ax.axvline(chance, color="#666666", linestyle="--", linewidth=1)
        ax.text(chance, len(names) - 0.4, f" {CHANCE}", color="#666666", fontsize=8, va="bottom")
        for place, name in enumerate(names):
            if name not in truth.values[suite]:
                continue
            summary = truth.cell(name, suite)
            above = truth.verdict(name, suite) == "better than chance"
            ax.plot([summary.low, summary.high], [place, place], color=colour, linewidth=2, alpha=0.5)
            ax.plot(summary.mean, place, mark, color=colour, markersize=5, markerfacecolor=colour if above else "white")
        ax.set_title(f"{suite} ({truth.rows(suite)})", fontsize=10)
        ax.set_xlabel(truth.metrics[suite][0])
        low, high = ax.get_xlim()
        ax.set_xlim(min(0.0, low), max(1.03, high))
        ax.set_ylim(-0.7, len(names) + 0.3)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_yticks(range(len(names)), names)
    return axes


def _head(truth: BenchmarkTable, suite: str) -> list[str]:
    """The suite over its first metric, and the names of the others."""
    first, *others = truth.metrics[suite]
    arrow = " ↓" if first in truth.less_is_better else ""
    return [f"{suite}{arrow}", *(f"{name}{' ↓' if name in truth.less_is_better else ''}" for name in others)]


def _cells(truth: BenchmarkTable, name: str, suite: str) -> list[str]:
    first, *others = truth.metrics[suite]
    if name in truth.orders[suite]:
        return [decimals(truth.cell(name, suite, metric).mean) for metric in (first, *others)]
    if name not in truth.values[suite]:
        return ["–"] * (1 + len(others))
    marked = f"{_interval(truth.cell(name, suite))} {MARKS[truth.verdict(name, suite)]}".rstrip()
    return [marked, *(decimals(truth.cell(name, suite, metric).mean) for metric in others)]


def _interval(cell: Summary | None) -> str:
    return "–" if cell is None else f"{decimals(cell.mean)} [{decimals(cell.low)} {decimals(cell.high)}]"


def truth_section(shown: Shown) -> dict[str, Any] | None:
    """A cell for each metric of each suite: mean, 95 % interval and the mark of the verdict; fixed orders on top."""
    truth = shown.only(BenchmarkTable)
    if truth is None:
        return None
    orders = tuple(dict.fromkeys(name for suite in truth.suites for name in truth.orders[suite]))
    columns = [(suite, metric) for suite in truth.suites for metric in truth.metrics[suite]]
    return {
        "heading": truth.heading(),
        "legend": list(truth.legend()),
        "foot": list(truth.foot()),
        "columns": [f"{suite}: {metric}{' ↓' if metric in truth.less_is_better else ''}" for suite, metric in columns],
        "cells": {
            name: [_cell(truth, name, suite, metric) for suite, metric in columns]
            for name in (*orders, *truth.explainers)
        },
        "lines": list(lines(truth)),
    }


def truth_plain(page: dict[str, Any]) -> list[PlainTable]:
    """As it is printed."""
    found = page["truth"]
    return [PlainTable(found["heading"], found["lines"], found["legend"], found["foot"])]


def _cell(truth: BenchmarkTable, name: str, suite: str, metric: str) -> dict[str, Any]:
    if name not in (*truth.values[suite], *truth.orders[suite]):
        return {"mean": None, "why": truth.refused.get(suite, {}).get(name, "not measured")}
    summary = truth.cell(name, suite, metric)
    mark = MARKS[truth.verdict(name, suite, metric)] if name in truth.values[suite] else ""
    return {"mean": number(summary.mean), "low": number(summary.low), "high": number(summary.high), "mark": mark}
