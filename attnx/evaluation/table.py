"""`EvaluationTable`: numbers of methods on the same inputs, with intervals, differences, a ranking and every export."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np

from attnx._signals import cached_property
from attnx.errors import ChoiceError
from attnx.registry import unknown
from attnx.results import PROVENANCE, Array, Between, Filled, Result, Rules, Shape
from attnx.statistics import LEVEL, SignFlips, Summary, sign_flips

if TYPE_CHECKING:
    from attnx.views import TextBlock

Significance: TypeAlias = Literal["above chance", "below chance", "not significantly different from chance"]
NOT_SIGNIFICANT: Significance = "not significantly different from chance"
MARKS: Mapping[Significance, str] = {"above chance": "+", "below chance": "−", NOT_SIGNIFICANT: ""}
FEWEST_INPUTS = 6
"""Of five inputs all fall on one side by chance in 1 of 16 cases: too often for an interval of 95 %."""


def _different_columns(columns: tuple[str, ...], _: Any) -> str | None:
    return None if columns and len(set(columns)) == len(columns) else "different names, and at least one"


def _row_of_the_table(name: str | None, result: Any) -> str | None:
    return None if name is None or name in result.whole.values else f"among values ({', '.join(result.whole.values)})"


@dataclass(frozen=True, eq=False, kw_only=True)
class EvaluationTable(Result):
    """Numbers of several methods on the same inputs. `t.cell("rollout", "deletion")` is a mean with its interval.

    A subclass adds fields of its own and overrides what differs:

    - `correction`: whether differences are corrected for the number of methods that are compared;
    - `heading()`, `lead()`, `foot()`: the sentences around the table;
    - `groups()`: heading → columns, where the columns are shown as several tables;
    - `label(column)`, `cell_text(method, column)`, `lines(columns)`: the head of a column, a cell, the whole table;
    - `rows()`: the records of `to_frame` and CSV; `draw(ax)`: the plot;
    - `cell(method, column)`: where the table has summaries and no number for each input.

    Text, Markdown, LaTeX, CSV, JSON, files, the HTML page, notebooks and rich output follow from these.

    Example:
        >>> values = {"raw": np.ones((6, 1)), "chance": np.zeros((6, 1))}
        >>> table = EvaluationTable(values=values, columns=("score",), baseline="chance")
        >>> table.significance("raw"), table.ranking()
        ('above chance', ('raw',))
    """

    kind: ClassVar[str] = "evaluation table"
    correction: ClassVar[bool] = True
    """Whether differences are corrected for the number of methods that are compared, by flipping signs (max-T)."""
    intervals: ClassVar[bool] = True
    """Whether a cell of the printed table has its interval."""
    rules: ClassVar[Rules] = {
        "columns": _different_columns,
        "values": Filled(),
        "values.*": Shape("measured columns", undefined=True),
        "baseline": _row_of_the_table,
        "seed": Between(0),
        "notes.*": Between(1),
        **PROVENANCE,
    }

    values: Mapping[str, Array]
    """Method → inputs × columns, NaN where a number is undefined; the baseline is a row like any other."""
    columns: tuple[str, ...]
    baseline: str | None = None
    """The row that all others are compared with: chance."""
    lower_is_better: tuple[str, ...] = ()
    """Columns in which a small number is a good one."""
    caption: str = ""
    seed: int = 0
    """Of the bootstrap and of the sign flips."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    notes: Mapping[str, int] = field(default_factory=dict)
    """What is to be known of how inputs were read and explained, and of how many of them."""

    @property
    def methods(self) -> tuple[str, ...]:
        """All rows but the baseline."""
        return tuple(name for name in self.values if name != self.baseline)

    @property
    def count(self) -> int:
        """How many inputs were measured."""
        return len(next(iter(self.values.values())))

    def array(self, method: str, column: str | None = None) -> Array:
        """A number for each input; without a column, of the first."""
        if method not in self.values:
            raise ChoiceError(unknown("method", method, self.values))
        result: Array = self.values[method][:, self.columns.index(self._column(column))]
        return result

    def cell(self, method: str, column: str | None = None) -> Summary:
        """The mean over the inputs, with its deviation and 95 % interval."""
        key = method, self._column(column)
        if key not in self._cells:
            self._cells[key] = Summary.of(self.array(*key), seed=self.seed)
        return self._cells[key]

    def difference(self, method: str, column: str | None = None, to: str | None = None) -> Summary:
        """How far a method differs from the baseline, or from another method, on the same inputs.

        The interval is corrected for all comparisons where `correction` is set: with the baseline for as many as there
        are methods, with another method for as many as there are pairs.
        """
        other = to or self._baseline()
        paired = self.array(method, column) - self.array(other, column)
        summary = Summary.of(paired, seed=self.seed)
        if not self.correction or method == other or summary.mean is None:
            return summary
        half = self._test(method, column, other)[1]
        finite = summary.count >= FEWEST_INPUTS and bool(np.isfinite(half))
        return replace(
            summary, low=summary.mean - half if finite else None, high=summary.mean + half if finite else None
        )

    def p_value(self, method: str, column: str | None = None, to: str | None = None) -> float:
        """Of the difference to the baseline, or to another method, corrected for all that are compared."""
        return self._test(method, column, to or self._baseline())[0]

    def significance(self, method: str, column: str | None = None) -> Significance:
        """Whether a method is better ("above") or worse ("below") than the baseline; six inputs or more can say."""
        difference = self.difference(method, column)
        if difference.count < FEWEST_INPUTS or difference.mean is None:
            return NOT_SIGNIFICANT
        if self.correction:
            significant = self.p_value(method, column) <= LEVEL
        else:
            significant = not (difference.low or 0.0) <= 0 <= (difference.high or 0.0)
        if not significant:
            return NOT_SIGNIFICANT
        return "above chance" if (difference.mean > 0) != self._lower(column) else "below chance"

    def ranking(self, column: str | None = None) -> tuple[str, ...]:
        """The methods, the best mean of a column first; those without a number come last."""
        sign = 1 if self._lower(column) else -1
        means = {name: self.cell(name, column).mean for name in self.methods}
        return tuple(sorted(means, key=lambda name: np.inf if means[name] is None else sign * (means[name] or 0.0)))

    def heading(self) -> str:
        """What was measured, in a line."""
        return self.caption

    def lead(self) -> tuple[str, ...]:
        """Lines between the heading and the table."""
        return ()

    def foot(self) -> tuple[str, ...]:
        """Lines beneath the table: how to read it."""
        return () if self.baseline is None else (self.marks_line(),)

    def marks_line(self, chance: str | None = None) -> str:
        """What the marks mean."""
        if self.count < FEWEST_INPUTS:
            return f"Fewer than {FEWEST_INPUTS} inputs cannot be told apart from chance; give more."
        interval = "corrected 95 % interval" if self.correction else "95 % interval"
        return (
            f"+ better, − worse than {chance or self.baseline}: the {interval} of the paired difference does not "
            "include 0."
        )

    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """Heading → the columns beneath it."""
        return {self.heading(): self.columns}

    def label(self, column: str) -> str:
        """The head of a column."""
        return f"{column} ↓" if column in self.lower_is_better else column

    def cell_text(self, method: str, column: str) -> str:
        """The mean, its interval, and a mark where it is above or below chance."""
        from attnx.views import decimals

        cell = self.cell(method, column)
        mark = "" if self.baseline in (None, method) else MARKS[self.significance(method, column)]
        interval = f" {interval_text(cell)}" if self.intervals and cell.count > 1 else ""
        return f"{decimals(cell.mean)}{interval} {mark}".rstrip()

    def lines(self, columns: tuple[str, ...]) -> list[list[str]]:
        """The table as texts, its head first."""
        names = (*self.methods, *([self.baseline] if self.baseline else []))
        return [
            ["", *map(self.label, columns)],
            *([name, *(self.cell_text(name, column) for column in columns)] for name in names),
        ]

    def best_cells(self, columns: tuple[str, ...]) -> frozenset[tuple[int, int]]:
        """Where the best mean of each column is in `lines`: in bold in LaTeX."""
        rows = [line[0] for line in self.lines(columns)]
        best = [(self.ranking(column), place) for place, column in enumerate(columns, start=1)]
        return frozenset((rows.index(names[0]), place) for names, place in best if len(names) > 1 and names[0] in rows)

    def blocks(self) -> list[TextBlock]:
        """The tables with what is written around them, of which every text is made."""
        from attnx.evaluation.view import note_blocks
        from attnx.views import TextBlock

        groups = self.groups()
        tables = [
            TextBlock(
                heading,
                lead=self.lead() if number == 0 else (),
                lines=self.lines(columns),
                foot=self.foot() if number == len(groups) - 1 else (),
                bold=self.best_cells(columns),
            )
            for number, (heading, columns) in enumerate(groups.items())
        ]
        return [*tables, *note_blocks(self.notes, self.count)]

    def rows(self) -> list[dict[str, Any]]:
        """A record for each input and method."""
        return [
            {"input": number, "method": name, **dict(zip(self.columns, row, strict=True))}
            for name, values in self.values.items()
            for number, row in enumerate(values.tolist())
        ]

    def to_latex(self, path: str | PathLike[str] | None = None) -> str:
        """A LaTeX table for each group of columns, which needs the package booktabs; written to `path` if there is one.

        Example:
            >>> table = EvaluationTable(values={"raw": np.ones((2, 1))}, columns=("a_b",), caption="Scores")
            >>> print(table.to_latex().splitlines()[5])
             & a\\\\_b \\\\\\\\
        """
        from attnx.views import as_latex

        text = as_latex(self.blocks())
        if path is not None:
            Path(path).write_text(f"{text}\n", encoding="utf-8")
        return text

    def draw(self, ax: Any = None) -> Any:
        """The means of the first column with their intervals, the baseline dashed; `plot` calls it."""
        from attnx.evaluation.view import plot_means

        return plot_means(self, ax)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.count} inputs, {', '.join(self.methods)}; {', '.join(self.columns)})"

    def _column(self, column: str | None) -> str:
        if column is not None and column not in self.columns:
            raise ChoiceError(unknown("column", column, self.columns))
        return self.columns[0] if column is None else column

    def _lower(self, column: str | None) -> bool:
        return self._column(column) in self.lower_is_better

    def _baseline(self) -> str:
        if self.baseline is None:
            raise ChoiceError(f"a {self.kind} has no baseline; name a method to compare with: to={self.methods[0]!r}")
        return self.baseline

    def _test(self, method: str, column: str | None, other: str) -> tuple[float, float]:
        """p and half the width of the corrected interval of a difference."""
        pairs, flips = self._tests(self._column(column), to_baseline=self.baseline in (method, other))
        number = pairs.index(frozenset((method, other)))
        return float(flips.p[number]), float(flips.half_width[number])

    def _tests(self, column: str, *, to_baseline: bool) -> tuple[list[frozenset[str]], SignFlips]:
        """All comparisons that are made of a column, and their common test."""
        key = column, to_baseline
        if key not in self._known_tests:
            ordered = self.ranking(column)
            compared = [(name, self._baseline()) for name in ordered] if to_baseline else combinations(ordered, 2)
            pairs = list(compared)
            differences = [np.nan_to_num(self.array(name, column) - self.array(other, column)) for name, other in pairs]
            self._known_tests[key] = (
                [frozenset(pair) for pair in pairs],
                sign_flips(np.stack(differences, axis=1), seed=self.seed),
            )
        return self._known_tests[key]

    @cached_property
    def _cells(self) -> dict[tuple[str, str], Summary]:
        return {}

    @cached_property
    def _known_tests(self) -> dict[tuple[str, bool], tuple[list[frozenset[str]], SignFlips]]:
        return {}


def interval_text(cell: Summary) -> str:
    """The ends of an interval in brackets; a dash where there is none."""
    from attnx.views import decimals

    return "–" if cell.count < 2 or cell.low is None else f"[{decimals(cell.low)} {decimals(cell.high)}]"


def plural(count: int, noun: str) -> str:
    """
    >>> plural(1, "text"), plural(12, "text")
    ('1 text', '12 texts')
    """
    return f"{count:,} {noun}{'s' * (count != 1)}"
