"""What is asked of a data set: how a shard of it becomes a part, as a pure function that any engine may call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from attnx.data.row import DataRow

Tick = Callable[[], None]
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
        self, model: Any, processor: Any, rows: Sequence[DataRow], layout: Mapping[str, Any], tick: Tick
    ) -> PartAnswer:
        """The same for the same rows, whatever was asked before and wherever it runs."""
        ...
