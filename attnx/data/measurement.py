"""A question over many inputs whose answer is one result: a row of cells for each input, and what all rows say.

In memory or in a folder it goes the same way. Inputs are measured by shards, each input gives its cells, which are
plain values, and the rows of all shards in the order of the data make the result. Nothing but rows goes from a shard to
the result, so parts merge to exactly what the whole gives.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

from attnx.capturing.watch import unwrapped
from attnx.data import manifest as manifests
from attnx.data.answered import answered, first_answers
from attnx.data.arrow import arrow
from attnx.data.part import as_part, read_part
from attnx.data.place import Place
from attnx.data.question import PartAnswer, Tick
from attnx.data.row import DataRow
from attnx.data.status import failed_rows, manifest_of
from attnx.errors import FileFormatError, InputError
from attnx.explaining.attempt import Postponed, Refused
from attnx.results.gathered import Cells
from attnx.results.storage import plain
from attnx.running.batches import forget_padding

T = TypeVar("T")

FORMAT = 1
"""Of the columns of parts. It rises when one changes its meaning."""


class Measurement(ABC, Generic[T]):
    """A comparison, a probe, a table: a frozen dataclass of plain values, which workers get as it is."""

    name: ClassVar[str]
    """Of the run, in its manifest and in messages."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Plain values; where they differ, so may the numbers."""

    def check(self, model: Any) -> None:
        """Raise for settings that this model cannot have, before any input is read."""
        return

    def read(self, model: Any, processor: Any, given: Any) -> Sequence[T]:
        """One input, or a list of them, as what is measured; by default they are so already."""
        return given if isinstance(given, list) else [given]

    def decided(self, model: Any, processor: Any, things: Sequence[T]) -> dict[str, Any]:
        """Fields of this measurement that the first shard decides for all of them; plain values."""
        return {}

    @abstractmethod
    def cells(self, model: Any, processor: Any, things: Sequence[T], tick: Tick, progress: bool) -> Sequence[Cells]:
        """For each thing its cells, the same columns in all: texts, numbers, and arrays of numbers."""

    @abstractmethod
    def result(self, cells: Iterable[Cells], left_out: Mapping[str, int]) -> Any:
        """What all rows say, in the order of the data; and why others were left out, and how many."""


def in_memory(
    measurement: Measurement[T], model: Any, processor: Any, given: Any, *, shard_rows: int, progress: bool
) -> Any:
    """The result of inputs that are held; one that cannot be measured is an error."""
    things = measurement.read(model, processor, given)
    known = _known(measurement, plain(measurement.decided(model, processor, things[:shard_rows])))
    rows: list[Cells] = []
    for start in range(0, len(things), shard_rows):
        forget_padding(unwrapped(model))
        rows += known.cells(model, processor, things[start : start + shard_rows], lambda: None, progress)
    return known.result(rows, {})


@dataclass(frozen=True)
class MeasurementQuestion(Generic[T]):
    """The question of a run: the same measurement, whose rows are kept."""

    measurement: Measurement[T]

    @property
    def name(self) -> str:
        return self.measurement.name

    def settings(self) -> dict[str, Any]:
        return self.measurement.settings()

    def begin(self, model: Any, processor: Any, rows: Sequence[DataRow]) -> dict[str, Any]:
        ready = answered(rows, lambda given: self.measurement.read(model, processor, given), lambda things: things)
        things = [one for one in ready.values() if not isinstance(one, Refused)]
        decided = plain(self.measurement.decided(model, processor, things)) if things else {}
        known = _known(self.measurement, decided)
        seen = first_answers(rows, lambda some: _asked(known, model, processor, some, lambda: None))
        return {"decided": decided, "columns": {name: _kind(value) for name, value in seen[0].items()}}

    def part(
        self, model: Any, processor: Any, rows: Sequence[DataRow], layout: Mapping[str, Any], tick: Tick
    ) -> PartAnswer:
        known = _known(self.measurement, layout["decided"])
        found = _asked(known, model, processor, rows, tick)
        columns = layout["columns"]
        cells = [
            _whole(row, found[row.number], columns) for row in rows if not isinstance(found[row.number], Postponed)
        ]
        return as_part(cells, _schema(columns), {"format": FORMAT, "question": self.name, **layout})

    def result(self, place: Place) -> Any:
        """What the rows of a finished run say together."""
        known = _known(self.measurement, manifest_of(place).layout.get("decided"))
        return known.result(_rows(place), _left_out(place))


def _known(measurement: Measurement[T], decided: Any) -> Measurement[T]:
    """With what was decided for all shards, which may come from a folder that was tampered with."""
    try:
        return replace(measurement, **decided)  # type: ignore[type-var]
    except TypeError as error:
        raise FileFormatError(f"what the run decided is not what attnx wrote: {error!s:.100}") from error


def _asked(
    measurement: Measurement[T], model: Any, processor: Any, rows: Sequence[DataRow], tick: Tick
) -> dict[int, Cells | Refused]:
    forget_padding(unwrapped(model))
    return answered(
        rows,
        lambda given: measurement.read(model, processor, given),
        lambda things: measurement.cells(model, processor, things, tick, False),
    )


def _whole(row: DataRow, found: Cells | Refused, columns: Mapping[str, str]) -> dict[str, Any]:
    named = {"row": row.number, "id": row.id, "sha256": row.sha256}
    if isinstance(found, Refused):
        return {**named, "error": found.reason}
    other = sorted({*found} ^ {*columns})
    if other:
        return {**named, "error": f"it has {'no ' * (other[0] in columns)}{other[0]}, unlike the first rows"}
    return named | {name: value.tolist() if getattr(value, "ndim", 0) > 1 else value for name, value in found.items()}


def _rows(place: Place) -> Iterator[Cells]:
    """The cells of all rows that have them."""
    manifest = manifest_of(place)
    schema = _schema(manifest.layout.get("columns"))
    for part in manifests.parts(place).values():
        for batch in read_part(place, part, manifest.shard_rows, schema=schema).to_batches(max_chunksize=256):
            for cells in batch.to_pylist():
                if cells["error"] is None:
                    yield {name: value for name, value in cells.items() if name not in _OWN}


def _left_out(place: Place) -> Counter[str]:
    """Why the others have none, and of how many that is so."""
    return Counter(one.error for one in failed_rows(place, manifests.parts(place).values(), manifest_of(place)))


_OWN = ("row", "id", "sha256", "error")


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return "text"
    if isinstance(value, int):
        return "whole"
    dimensions = getattr(value, "ndim", 0)
    return ("number", "numbers", "grid")[dimensions]


def _schema(columns: Any) -> Any:
    pa = arrow()
    kinds = {
        "text": pa.string(),
        "whole": pa.int64(),
        "number": pa.float64(),
        "numbers": pa.list_(pa.float64()),
        "grid": pa.list_(pa.list_(pa.float64())),
    }
    if not isinstance(columns, Mapping) or not {*map(str, columns.values())} <= {*kinds}:
        raise FileFormatError("the columns of the run are not what attnx wrote")
    doubled = [name for name in columns if name in _OWN]
    if doubled:
        raise InputError(f"a run has a column {doubled[0]!r} already; a method cannot be called so")
    own = [("row", pa.int64()), ("id", pa.string()), ("sha256", pa.string())]
    return pa.schema([*own, *((name, kinds[kind]) for name, kind in columns.items()), ("error", pa.string())])
