"""Evaluations as tasks over a data set: each input gives a row of cells, and all rows together a table."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attnx.errors import InputError
from attnx.pipeline import Call, Choices, Request
from attnx.progress import progress_bar
from attnx.results import Array, Explanation, plain
from attnx.runs import FACTS, Cells, DatasetTask, RowCallback, as_setting

LEFT_OUT = "left out: "
"""How notes begin that are about inputs which are not in the result."""
_REASONS = 5
"""How many different reasons for leaving inputs out are listed."""


@dataclass(frozen=True)
class EvaluationTask(DatasetTask[Request]):
    """A task whose inputs are whatever `explain` takes."""

    options: Mapping[str, Any] = field(default_factory=dict)
    """Those of `explain`."""

    def settings(self) -> dict[str, Any]:
        chosen = {**{name: value for name, value in vars(self).items() if name != "options"}, **self.options}
        return {name: as_setting(value) for name, value in sorted(chosen.items()) if value is not None}

    def check(self, model: Any) -> None:
        Choices.of(model, **self.options)

    def read(self, model: Any, processor: Any, given: Any) -> Sequence[Request]:
        return Choices.of(model, **self.options).requests(processor, given)[0]

    def call(self, model: Any, processor: Any, things: Sequence[Request]) -> Call:
        return Choices.of(model, **self.options).call(processor, things)


@dataclass(frozen=True)
class ExplainedRowsTask(EvaluationTask):
    """A task whose rows are computed from one explanation each."""

    measure: str = "spearman"
    seed: int = 0
    """Of the bootstrap, which the result draws: no row depends on it."""

    def settings(self) -> dict[str, Any]:
        return {name: value for name, value in super().settings().items() if name != "seed"}

    @abstractmethod
    def row(self, explanation: Explanation) -> Cells:
        """The cells of one input."""

    def cells(
        self, model: Any, processor: Any, things: Sequence[Request], tick: RowCallback, progress: bool
    ) -> Sequence[Cells]:
        rows: dict[int, Cells] = {}
        with progress_bar("explaining", len(things), progress) as bar:
            for number, explanation in self.call(model, processor, things).explanations():
                rows[number] = self.row(explanation)
                bar.update(1)
                tick()
        return [rows[number] for number in range(len(things))]


def facts(*, provenance: Mapping[str, Any], notes: Sequence[str] = (), **more: Any) -> dict[str, Any]:
    """What is known of an input besides its numbers, as JSON would give it back."""
    result: dict[str, Any] = plain({"provenance": provenance, "notes": notes, **more})
    return result


@dataclass(eq=False)
class CollectedRows:
    """The rows of at least one input, as columns."""

    columns: dict[str, list[Any]] = field(default_factory=dict)
    first: dict[str, Any] = field(default_factory=dict)
    """The facts of the first input."""
    shared: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Reference → those of its facts that are the same for all inputs."""
    note_counts: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, rows: Iterable[Cells], left_out: Mapping[str, int] | None = None) -> CollectedRows:
        """All rows; and the reasons why inputs were left out, which become notes."""
        collected, seen = cls(), None
        notes: list[str] = []
        for cells in rows:
            for name, value in cells.items():
                if name != FACTS:
                    collected.columns.setdefault(name, []).append(value)
            if cells[FACTS] != seen:  # neighbouring rows mostly have the same
                seen, notes = cells[FACTS], collected._add_facts(cells[FACTS])
            collected.note_counts.update(notes)
        if not collected.first:
            raise InputError("there is nothing to sum up: no input could be measured")
        for reason, count in _commonest(left_out or {}).items():
            collected.note_counts[f"{LEFT_OUT}{reason}"] += count
        return collected

    @property
    def provenance(self) -> dict[str, Any]:
        """Of the first input."""
        result: dict[str, Any] = self.first["provenance"]
        return result

    @property
    def notes(self) -> dict[str, int]:
        """Note → the number of inputs it is about, the commonest first."""
        return dict(self.note_counts.most_common())

    def array(self, name: str) -> Array:
        """A column: inputs × the shape of a cell."""
        return np.array(self.columns[name], dtype=np.float64)

    def _add_facts(self, row_facts: dict[str, Any]) -> list[str]:
        """The notes of an input; its other facts are kept where they are the first, or the same as in all others."""
        references = row_facts["provenance"].get("methods", {})
        if not self.first:
            self.first, self.shared = row_facts, {name: dict(record) for name, record in references.items()}
        for name, known in self.shared.items():
            record = references.get(name, {})
            self.shared[name] = {key: value for key, value in known.items() if key in record and record[key] == value}
        notes: list[str] = row_facts["notes"]
        return notes


def with_left_out(source: str, left_out: Mapping[str, int]) -> str:
    """Where inputs come from, and how many of them could not be measured, for results that have no notes."""
    names = [f"{count:,} left out: {reason.partition(';')[0]}" for reason, count in _commonest(left_out).items()]
    return ", ".join([source, *names])


def _commonest(reasons: Mapping[str, int]) -> dict[str, int]:
    """The commonest reasons, and all others as one."""
    ordered = Counter(reasons).most_common()
    others = sum(count for _, count in ordered[_REASONS:])
    return dict(ordered[:_REASONS]) | ({"other reasons": others} if others else {})
