"""The result of suites with a known answer: how high each method ranks what is right, next to chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from attnx.errors import ChoiceError
from attnx.evaluation import FEWEST_INPUTS, EvaluationTable, Significance, interval_text, plural
from attnx.registry import unknown
from attnx.results import Between, Filled, Result, Rules, Shape, check
from attnx.statistics import RESAMPLES, Summary

if TYPE_CHECKING:
    from attnx.views import PlainTable, Shown, TextBlock

CHANCE = "chance"


@dataclass(frozen=True, eq=False, kw_only=True)
class SuiteTable(EvaluationTable):
    """One suite: each method, chance and fixed orders on the same inputs. Methods are ranked by the first column."""

    kind: ClassVar[str] = "suite"
    correction: ClassVar[bool] = False
    rules: ClassVar[Rules] = {
        **EvaluationTable.rules,
        "values": Filled(named=[CHANCE]),
        "values.*": Shape("measured columns"),
        "wrong": Between(0),
    }

    columns: tuple[str, ...] = ("reciprocal rank", "first")
    baseline: str | None = CHANCE
    fixed_orders: tuple[str, ...] = ()
    """Rows that know nothing of the input, such as "(first)": always the same position."""
    title: str = ""
    right: str = ""
    """What is right, and why."""
    unit: str = "word"
    """What is ranked."""
    source: str = ""
    """Where inputs and model come from."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Method → why it has no numbers."""
    wrong: int = 0
    """Inputs that the model gets wrong, and that were left out."""
    signed: tuple[str, ...] = ()
    """Methods whose scores support or oppose the target: what opposes it ranks last."""

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(name for name in super().methods if name not in self.fixed_orders)

    @property
    def not_above_chance(self) -> tuple[str, ...]:
        """The methods that are not significantly above chance, by the first column."""
        return tuple(name for name in self.ranking() if self.significance(name) != "above chance")

    def array(self, method: str, column: str | None = None) -> Any:
        if method in self.refused and method not in self.values:
            raise ChoiceError(f"{method} has no numbers: {self.refused[method]}")
        return super().array(method, column)


@dataclass(frozen=True, eq=False)
class BenchmarkTable(Result):
    """Which methods find what is known to decide. `t.cell("lrp", "recall")` is a mean with its interval.

    `t.suites["recall"]` is an `EvaluationTable` of one suite.

    Example:
        >>> t = benchmark(suites="recall", rows=12, methods=[], references="lrp", progress=False)
        >>> t.significance("lrp", "recall")
        'above chance'
    """

    kind: ClassVar[str] = "benchmark"
    rules: ClassVar[Rules] = {"suites": Filled(), "suites.*": lambda suite, _: check(suite)}

    suites: Mapping[str, SuiteTable]

    @property
    def methods(self) -> tuple[str, ...]:
        """All that have a number, the best first by the mean over suites; where one has none, chance stands for it."""

        def standing(name: str, suite: SuiteTable) -> float:
            mean = suite.cell(name if name in suite.values else CHANCE).mean or 0.0
            return -mean if suite.columns[0] in suite.lower_is_better else mean

        names = dict.fromkeys(name for suite in self.suites.values() for name in suite.methods)
        suites = self.suites.values()
        return tuple(sorted(names, key=lambda name: -float(np.mean([standing(name, suite) for suite in suites]))))

    def suite(self, name: str) -> SuiteTable:
        if name not in self.suites:
            raise ChoiceError(unknown("suite", name, self.suites) + " (of those that were measured)")
        return self.suites[name]

    def cell(self, method: str, suite: str, metric: str | None = None) -> Summary:
        """Mean and 95 % interval over the inputs, of a method, of chance or of a fixed order."""
        return self.suite(suite).cell(method, metric)

    def significance(self, method: str, suite: str, metric: str | None = None) -> Significance:
        """Whether a method is above chance; fewer than six inputs cannot say."""
        return self.suite(suite).significance(method, metric)

    def mean(self, method: str) -> Summary | None:
        """The mean over suites of the first metric, resampled within each; None unless all have it and it is one."""
        suites = list(self.suites.values())
        if len({suite.columns[0] for suite in suites}) > 1 or len(suites) < 2:
            return None
        if not all(method in suite.values for suite in suites):
            return None
        columns = [suite.array(method) for suite in suites]
        random = np.random.default_rng(suites[0].seed)
        drawn = [column[random.integers(len(column), size=(RESAMPLES, len(column)))].mean(1) for column in columns]
        low, high = np.quantile(np.mean(drawn, axis=0), (0.025, 0.975))
        means = [float(column.mean()) for column in columns]
        count = sum(map(len, columns))
        return Summary(float(np.mean(means)), float(np.std(means)), float(low), float(high), count, 0)

    def heading(self) -> str:
        """What was measured, in a line."""
        names = {suite.columns[0] for suite in self.suites.values()}
        return f"Known answers: {' and '.join(sorted(names))}, mean [95 %]"

    def lead(self) -> tuple[str, ...]:
        """What each suite asks, a line each."""
        return tuple(
            f"{name}: {suite.title}; {plural(suite.count, 'input')}, {suite.source}"
            f"{f'; {suite.wrong} left out that the model gets wrong' if suite.wrong else ''}."
            for name, suite in self.suites.items()
        )

    def foot(self) -> tuple[str, ...]:
        """How to read the marks, which methods are not above chance, and which have no numbers."""
        lines = [
            "+ better, − worse than chance: the 95 % interval of the paired difference does not include 0. Ties count "
            "as in random order. (first), (last), (second): always the same position."
        ]
        refused: dict[tuple[str, str], list[str]] = {}
        for name, suite in self.suites.items():
            if suite.count < FEWEST_INPUTS:
                lines.append(f"{name}: fewer than {FEWEST_INPUTS} inputs cannot be told apart from chance.")
            elif suite.not_above_chance:
                lines.append(f"{name}: not above chance: {', '.join(suite.not_above_chance)}.")
            for pair in suite.refused.items():
                refused.setdefault(pair, []).append(name)
        lines += [
            f"{', '.join(names)}: {method} has no numbers: {reason}" for (method, reason), names in refused.items()
        ]
        return tuple(lines)

    def lines(self) -> list[list[str]]:
        """The suites side by side: chance and the fixed orders, then all methods, the best first."""
        from attnx.views import decimals

        mean = self.mean(CHANCE) is not None
        heads = [
            suite.label(column).replace(column, name) if place == 0 else suite.label(column)
            for name, suite in self.suites.items()
            for place, column in enumerate(suite.columns)
        ]
        lines = [["", *heads, *(["mean"] if mean else [])]]
        for row in self._rows():
            line = [row]
            for suite in self.suites.values():
                first, *others = suite.columns
                if row in suite.methods:
                    line.append(suite.cell_text(row, first))
                else:
                    line.append(decimals(suite.cell(row, first).mean) if row in suite.values else "–")
                line += [decimals(suite.cell(row, name).mean) if row in suite.values else "–" for name in others]
            summary = self.mean(row)
            interval = "–" if summary is None else f"{decimals(summary.mean)} {interval_text(summary)}"
            lines.append([*line, *([interval] if mean else [])])
        return lines

    def blocks(self) -> list[TextBlock]:
        from attnx.views import TextBlock

        return [TextBlock(self.heading(), lead=self.lead(), lines=self.lines(), foot=self.foot())]

    def rows(self) -> list[dict[str, Any]]:
        """A record for each suite, method (or fixed order) and metric."""
        return [
            {"suite": name, "method": method, "metric": metric, **vars(suite.cell(method, metric))}
            for name, suite in self.suites.items()
            for method in suite.values
            for metric in suite.columns
        ]

    def to_latex(self) -> str:
        """A LaTeX table of all suites, which needs the package booktabs."""
        from attnx.views import as_latex

        return as_latex(self.blocks())

    def draw(self, axes: Any = None) -> Any:
        """A panel for each suite: every method's mean with its interval, chance dashed. Takes and returns axes."""
        from attnx.evaluation import plot_means

        names = self.methods[::-1]
        if axes is None:
            from matplotlib import pyplot

            size = (1.6 + 3.0 * len(self.suites), 1.1 + 0.24 * len(names))
            panels = pyplot.subplots(
                1, len(self.suites), figsize=size, sharey=True, squeeze=False, layout="constrained"
            )
            axes = panels[1][0]
        for ax, (name, suite) in zip(axes, self.suites.items(), strict=True):
            plot_means(suite, ax, names=names)
            ax.set_title(f"{name} ({suite.count})", fontsize=10)
            low, high = ax.get_xlim()
            ax.set_xlim(min(0.0, low), max(1.03, high))
        return axes

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} of {suite.count}" for name, suite in self.suites.items())
        return f"BenchmarkTable({sizes}; {plural(len(self.methods), 'method')})"

    def _rows(self) -> Sequence[str]:
        orders = dict.fromkeys(name for suite in self.suites.values() for name in (CHANCE, *suite.fixed_orders))
        return (*orders, *self.methods)


def benchmark_section(shown: Shown) -> dict[str, Any] | None:
    """A cell for each metric of each suite: mean, 95 % interval and mark; chance and fixed orders on top."""
    from attnx.evaluation import cell_data

    table = shown.only(BenchmarkTable)
    if table is None:
        return None
    columns = [(name, metric) for name, suite in table.suites.items() for metric in suite.columns]

    def cell(row: str, suite: SuiteTable, metric: str) -> dict[str, Any]:
        if row not in suite.values:
            return {"mean": None, "why": suite.refused.get(row, "not measured")}
        return cell_data(suite, row, metric)

    return {
        "heading": table.heading(),
        "legend": list(table.lead()),
        "foot": list(table.foot()),
        "columns": [f"{name}: {table.suites[name].label(metric)}" for name, metric in columns],
        "cells": {row: [cell(row, table.suites[name], metric) for name, metric in columns] for row in table._rows()},
        "lines": table.lines(),
    }


def benchmark_plain(page: dict[str, Any]) -> list[PlainTable]:
    """As it is printed."""
    from attnx.views import PlainTable

    data = page["truth"]
    return [PlainTable(data["heading"], data["lines"], data["legend"], data["foot"])]
