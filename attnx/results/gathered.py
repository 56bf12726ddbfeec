"""Rows of cells, gathered column by column: what a result over many inputs is made of.

A row is what one input adds: numbers, and `facts`, JSON that tells how they came about. Rows are read one after the
other and in the order of the data, so that a result is the same whichever parts they were kept in.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from attnx.errors import InputError
from attnx.results.result import Array
from attnx.results.storage import plain

Cells: TypeAlias = dict[str, Any]
"""Column → a text, a number, or an array of numbers."""

FACTS = "facts"
LEFT_OUT = "left out: "
"""How notes begin that are of inputs which are not in the result."""
_REASONS = 5
"""So many reasons are told apart of those for which inputs were left out."""


def facts(*, provenance: Mapping[str, Any], notes: Sequence[str] = (), **more: Any) -> str:
    """What is told of an input beside its numbers."""
    return json.dumps(plain({"provenance": provenance, "notes": notes, **more}), ensure_ascii=False)


@dataclass(eq=False)
class Gathered:
    """Of at least one input."""

    columns: dict[str, list[Any]] = field(default_factory=dict)
    first: dict[str, Any] = field(default_factory=dict)
    """The facts of the first input."""
    shared: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Reference → those of its facts that are the same for all inputs."""
    noted: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, rows: Iterable[Cells], left_out: Mapping[str, int] | None = None) -> Gathered:
        """All rows; and why inputs that have none were left out, which the notes say."""
        made, seen = cls(), ""
        notes: list[str] = []
        for cells in rows:
            for name, value in cells.items():
                if name != FACTS:
                    made.columns.setdefault(name, []).append(value)
            if cells[FACTS] != seen:  # rows beside each other mostly tell the same
                seen, notes = cells[FACTS], made._notes(json.loads(cells[FACTS]))
            made.noted.update(notes)
        if not made.first:
            raise InputError("there is nothing to sum up: no input could be measured")
        for reason, count in _fewer(left_out or {}).items():
            made.noted[f"{LEFT_OUT}{reason}"] += count
        return made

    @property
    def provenance(self) -> dict[str, Any]:
        """Of the first input."""
        told: dict[str, Any] = self.first["provenance"]
        return told

    @property
    def notes(self) -> dict[str, int]:
        """Note → of how many inputs, the commonest first."""
        return dict(self.noted.most_common())

    def array(self, name: str) -> Array:
        """A column: input × what a cell holds."""
        return np.array(self.columns[name], dtype=np.float64)

    def _notes(self, told: dict[str, Any]) -> list[str]:
        """Those of an input, whose other facts are kept as far as they are the first or the same as all others."""
        references = told["provenance"].get("references", {})
        if not self.first:
            self.first, self.shared = told, {name: dict(of_one) for name, of_one in references.items()}
        for name, known in self.shared.items():
            own = references.get(name, {})
            self.shared[name] = {key: value for key, value in known.items() if key in own and own[key] == value}
        noted: list[str] = told["notes"]
        return noted


def with_left_out(source: str, left_out: Mapping[str, int]) -> str:
    """Where inputs come from, and how many of them could not be measured, for results that have no notes."""
    told = [f"{count:,} left out: {reason.partition(';')[0]}" for reason, count in _fewer(left_out).items()]
    return ", ".join([source, *told])


def _fewer(reasons: Mapping[str, int]) -> dict[str, int]:
    """The commonest, and all others as one."""
    ordered = Counter(reasons).most_common()
    others = sum(count for _, count in ordered[_REASONS:])
    return dict(ordered[:_REASONS]) | ({"other reasons": others} if others else {})
