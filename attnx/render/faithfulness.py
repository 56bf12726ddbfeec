"""Faithfulness to look at: a table of four numbers with the marks of their verdicts, and two curves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from attnx.render.axes import LOOKS
from attnx.render.columns import TextBlock, decimals, noted
from attnx.results.faithfulness import MARKS, METRICS, MORE_IS_BETTER, RANDOM, Faithfulness


def blocks(faithfulness: Faithfulness) -> list[TextBlock]:
    table = TextBlock(faithfulness.heading(), lines=list(_lines(faithfulness)), foot=(faithfulness.foot(),))
    return [table, *noted(faithfulness.notes, len(faithfulness.values[RANDOM]))]


def rows(faithfulness: Faithfulness) -> list[dict[str, Any]]:
    """A row for each text and explainer, chance included."""
    return [
        {"text": number, "explainer": name, **dict(zip(METRICS, row, strict=True))}
        for name, values in faithfulness.values.items()
        for number, row in enumerate(values.tolist())
    ]


def plot(faithfulness: Faithfulness, axes: Any = None) -> Any:
    if axes is None:
        from matplotlib import pyplot

        _, axes = pyplot.subplots(1, 2, figsize=(9.6, 3.4), sharey=True, layout="constrained")
    titles = ("deletion: the most relevant go first", "insertion: the most relevant come first")
    for ax, curves, title in zip(axes, (faithfulness.deletion, faithfulness.insertion), titles, strict=True):
        shares = np.linspace(0, 100, 11)
        ax.plot(shares, curves[RANDOM], color="#666666", linestyle="--", label="random order")
        for number, name in enumerate(faithfulness.explainers):
            colour, mark = LOOKS[number % len(LOOKS)]
            ax.plot(shares, curves[name], color=colour, marker=mark, markersize=3.5, label=name)
        ax.set_title(title)
        ax.set_xlabel("% of positions")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel(f"{faithfulness.score} of the target")
    axes[1].legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return axes


def _lines(faithfulness: Faithfulness) -> Iterator[list[str]]:
    yield ["", *(f"{name} {'↑' if more else '↓'}" for name, more in MORE_IS_BETTER.items())]
    for name in (*faithfulness.explainers, RANDOM):
        means = [decimals(faithfulness.cell(name, metric).mean) for metric in METRICS]
        marks = ["" if name == RANDOM else MARKS[faithfulness.verdict(name, metric)] for metric in METRICS]
        yield [name, *(f"{mean} {mark}".rstrip() for mean, mark in zip(means, marks, strict=True))]
