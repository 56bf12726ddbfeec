"""What is asked of rows: each has an answer, or says why it has none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from attnx.errors import InputError
from attnx.pipeline import Refused, attempt
from attnx.runs.sources import DataRow

RowCallback = Callable[[], None]
"""Called for each row that is done, for whoever shows it."""


@dataclass(frozen=True)
class PartAnswer:
    """A part, ready to be written."""

    content: bytes
    failed: int
    """Rows that could not be answered; the part says why."""
    rows: int = 0
    """Rows of the part: fewer than the shard has where memory was short."""
    held: int = 0
    """Bytes of it in memory, before they were written down."""


class Question(Protocol):
    """Explanations, a comparison, … Workers get it as it is, so it holds plain values."""

    @property
    def name(self) -> str:
        """Of the run, in its manifest and in messages."""
        ...

    def settings(self) -> dict[str, Any]:
        """Plain values; where they differ, so may the numbers."""
        ...

    def begin(self, model: Any, processor: Any, rows: Sequence[DataRow]) -> dict[str, Any]:
        """Try the first rows. What they tell of all is kept in the manifest; where none can be answered, an error."""
        ...

    def part(
        self, model: Any, processor: Any, rows: Sequence[DataRow], layout: Mapping[str, Any], tick: RowCallback
    ) -> PartAnswer:
        """The same for the same rows, whatever was asked before and wherever it runs."""
        ...


T = TypeVar("T")
R = TypeVar("R")

TRIED = 8
"""Rows that are asked before a run, to see what it will hold and how long it will take."""


def answered(
    rows: Sequence[DataRow], read: Callable[[Any], Sequence[T]], run: Callable[[Sequence[T]], Sequence[R]]
) -> dict[int, R | Refused]:
    """The number of each row, and what `run` gives for it. `read` makes of a row what the model can be asked.

    A row that has not enough memory, also alone, is `Postponed`: it is no failure of the row.
    """
    ready: dict[int, T] = {}
    answers: dict[int, R | Refused] = {}
    for row in rows:
        (thing,) = attempt([row], lambda data_rows: [_one(read, data_rows[0])], postpone=True)
        if isinstance(thing, Refused):  # whatever a tokenizer has against a text
            answers[row.number] = thing
        else:
            ready[row.number] = thing
    results = attempt(list(ready), lambda numbers: run([ready[number] for number in numbers]), postpone=True)
    return answers | dict(zip(ready, results, strict=True))


class NoAnswerError(InputError):
    """None of some rows can be explained; says why the first cannot."""


def first_outputs(rows: Sequence[DataRow], ask: Callable[[Sequence[DataRow]], dict[int, R | Refused]]) -> list[R]:
    """What the first rows that have an answer say; where none has, an error."""
    reasons: list[str] = []
    for start in range(0, len(rows), TRIED):
        found = ask(rows[start : start + TRIED])
        seen = [one for one in found.values() if not isinstance(one, Refused)]
        if seen:
            return seen
        reasons += [f"row {number}: {one.reason}" for number, one in found.items() if isinstance(one, Refused)]
    raise NoAnswerError(reasons[0])


def _one(read: Callable[[Any], Sequence[T]], row: DataRow) -> T:
    if row.problem:
        raise InputError(row.problem)
    things = read(row.given)
    if len(things) != 1:
        raise InputError(f"a row is one input, found a batch of {len(things)}; give each a row")
    return things[0]
