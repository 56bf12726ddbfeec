"""The result of suites with a known answer: how high each explainer puts what is right, beside chance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from attnx.errors import ChoiceError
from attnx.evaluation import FEWEST_TEXTS, Verdict, verdict_of
from attnx.registry import unknown
from attnx.results import Array, Between, Filled, Named, Rules, TableResult
from attnx.statistics import RESAMPLES, Summary

CHANCE = "chance"


def _a_row_for_each_input(suites: Mapping[str, Mapping[str, Array]], result: Any) -> str | None:
    """Of every suite that has metrics, as many rows as chance has, and a finite number for each metric."""
    whole = result.whole
    if set(suites) != set(whole.metrics) or not all(CHANCE in whole.orders.get(suite, {}) for suite in suites):
        return "an object with the suites of metrics, and chance among the orders of each"
    for suite, several in suites.items():
        shape = (len(whole.orders[suite][CHANCE]), len(whole.metrics[suite]))
        if not shape[0] or any(array.shape != shape or not np.isfinite(array).all() for array in several.values()):
            return f"finite numbers for {shape[0]} inputs × {shape[1]} metrics in {suite!r}"
    return None


@dataclass(frozen=True, eq=False)
class BenchmarkTable(TableResult):
    """Which explainers find what is known to decide. `t.cell("lrp", "recall")` is a mean and its interval.

    >>> t = benchmark(suites="recall", rows=12, methods=[], references="lrp", progress=False)
    >>> t.verdict("lrp", "recall")
    'better than chance'
    """

    kind: ClassVar[str] = "truth"
    rules: ClassVar[Rules] = {
        "metrics": Filled(),
        "metrics.*": Filled(),
        "orders": _a_row_for_each_input,
        "values": _a_row_for_each_input,
        "wrong.*": Between(0),
        "seed": Between(0),
        "provenance.*": Named(),
    }

    values: Mapping[str, Mapping[str, Array]]
    """Suite → explainer → row × metric: a row for each input."""
    orders: Mapping[str, Mapping[str, Array]]
    """Suite → chance, and orders that know nothing of the input → row × metric, of the same inputs."""
    metrics: Mapping[str, tuple[str, ...]]
    """Suite → its columns; the first is what explainers are ordered by."""
    less_is_better: tuple[str, ...] = ()
    """Metrics of which a small number is a good one."""
    about: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Suite → its title, what is right, the unit that is ranked, and the source of inputs and model."""
    refused: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Suite → explainer → why it has no numbers there."""
    wrong: Mapping[str, int] = field(default_factory=dict)
    """Suite → inputs that the model got wrong, and that were left out."""
    signed: tuple[str, ...] = ()
    """Explainers whose scores are for and against the answer: what speaks against it stands last."""
    seed: int = 0
    provenance: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Suite → versions, model and settings that made its numbers."""

    @property
    def suites(self) -> tuple[str, ...]:
        return tuple(self.values)

    @property
    def explainers(self) -> tuple[str, ...]:
        """All that have a number, the best first by the mean over suites; where one has none, chance stands for it."""
        names = dict.fromkeys(name for of_suite in self.values.values() for name in of_suite)
        return tuple(
            sorted(names, key=lambda name: -float(np.mean([self._standing(name, suite) for suite in self.suites])))
        )

    def rows(self, suite: str) -> int:
        """How many inputs were measured."""
        return len(self.orders[self._suite(suite)][CHANCE])

    def cell(self, explainer: str, suite: str, metric: str | None = None) -> Summary:
        """Mean and 95 % interval over the inputs, of an explainer, of chance or of a fixed order."""
        return Summary.of(self._column(explainer, suite, metric), seed=self.seed)

    def beyond_chance(self, explainer: str, suite: str, metric: str | None = None) -> Summary:
        """By how much an explainer differs from chance on the same inputs: paired, with its 95 % interval."""
        chance = self._column(CHANCE, suite, metric)
        return Summary.of(self._column(explainer, suite, metric) - chance, seed=self.seed)

    def verdict(self, explainer: str, suite: str, metric: str | None = None) -> Verdict:
        """Whether the interval of the difference to chance leaves zero out; fewer than six inputs cannot tell."""
        name = self._metric(suite, metric)
        return verdict_of(self.beyond_chance(explainer, suite, name), name not in self.less_is_better)

    def not_above_chance(self, suite: str) -> tuple[str, ...]:
        """The explainers that cannot be told from chance, or are below it, by the first metric."""
        return tuple(
            name
            for name in self.explainers
            if name in self.values[suite] and self.verdict(name, suite) != "better than chance"
        )

    def mean(self, explainer: str) -> Summary | None:
        """The mean over suites of the first metric, rows drawn anew in each; None unless all have it and it is one."""
        if len({names[0] for names in self.metrics.values()}) > 1 or len(self.suites) < 2:
            return None
        if not all(explainer in (*self.values[suite], *self.orders[suite]) for suite in self.suites):
            return None
        columns = [self._column(explainer, suite, None) for suite in self.suites]
        random = np.random.default_rng(self.seed)
        drawn = [column[random.integers(len(column), size=(RESAMPLES, len(column)))].mean(1) for column in columns]
        low, high = np.quantile(np.mean(drawn, axis=0), (0.025, 0.975))
        means = [float(column.mean()) for column in columns]
        count = sum(map(len, columns))
        return Summary(float(np.mean(means)), float(np.std(means)), float(low), float(high), count, 0)

    def plot(self, axes: Any = None) -> Any:
        """A panel for each suite: every explainer's mean with its interval, chance dashed. Takes and returns axes."""
        return self._view.plot(self, axes)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{suite} of {self.rows(suite)}" for suite in self.suites)
        return f"Truth({sizes}; {len(self.explainers)} methods and references)"

    def heading(self) -> str:
        """What was measured, in a line."""
        names = {self.metrics[suite][0] for suite in self.suites}
        return f"Known answers: {' and '.join(sorted(names))}, mean [95 %]"

    def legend(self) -> tuple[str, ...]:
        """What each suite asks, a line each."""
        return tuple(map(self._line, self.suites))

    def foot(self) -> tuple[str, ...]:
        """How to read the marks, who is no better than chance, and who has no numbers."""
        lines = [
            "+ better, − worse than chance: the 95 % interval of the paired difference leaves 0 out. What ties counts "
            "as in random order. (first), (last), (second): always the same place."
        ]
        for suite in self.suites:
            if self.rows(suite) < FEWEST_TEXTS:
                lines.append(f"{suite}: fewer than {FEWEST_TEXTS} inputs cannot be told apart from chance.")
            elif self.not_above_chance(suite):
                lines.append(f"{suite}: not above chance: {', '.join(self.not_above_chance(suite))}.")
        lines += [
            f"{', '.join(suites)}: {name} has no numbers: {reason}"
            for (name, reason), suites in _grouped(self.refused).items()
        ]
        return tuple(lines)

    def _line(self, suite: str) -> str:
        about, count, wrong = self.about.get(suite, {}), self.rows(suite), self.wrong.get(suite, 0)
        left_out = f"; {wrong} left out that the model gets wrong" if wrong else ""
        inputs = f"{count} input{'s' * (count != 1)}"
        return f"{suite}: {about.get('title', '')}; {inputs}, {about.get('source', '')}{left_out}."

    def _standing(self, name: str, suite: str) -> float:
        """The mean by which explainers are ordered: more is better."""
        metric = self.metrics[suite][0]
        known = name in self.values[suite]
        mean = float(self._column(name if known else CHANCE, suite, metric).mean())
        return -mean if metric in self.less_is_better else mean

    def _column(self, explainer: str, suite: str, metric: str | None) -> Array:
        place = self.metrics[self._suite(suite)].index(self._metric(suite, metric))
        every = {**self.values[suite], **self.orders[suite]}
        if explainer not in every:
            if explainer in self.refused.get(suite, {}):
                raise ChoiceError(f"{explainer} has no numbers on {suite}: {self.refused[suite][explainer]}")
            raise ChoiceError(unknown("explainer", explainer, every))
        column: Array = every[explainer][:, place]
        return column

    def _suite(self, suite: str) -> str:
        if suite not in self.values:
            raise ChoiceError(unknown("suite", suite, self.values) + " (of those that were measured)")
        return suite

    def _metric(self, suite: str, metric: str | None) -> str:
        names = self.metrics[self._suite(suite)]
        if metric is not None and metric not in names:
            raise ChoiceError(unknown("metric", metric, names))
        return metric or names[0]


def _grouped(refused: Mapping[str, Mapping[str, str]]) -> dict[tuple[str, str], list[str]]:
    """(explainer, reason) → the suites in which it refused for that."""
    result: dict[tuple[str, str], list[str]] = {}
    for suite, several in refused.items():
        for pair in several.items():
            result.setdefault(pair, []).append(suite)
    return result
