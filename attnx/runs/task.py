"""What is computed for each row of a data set, and the one way from rows to a table.

A task reads a row as a request, and gives cells for requests. `compute` asks it for the rows of a shard, `part_content`
writes their cells as Parquet, and `stored_cells` reads them again. The first rows decide the columns of all parts and
the facts that are stored once; a row stores only how its own facts differ.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from attnx.errors import FileFormatError, InputError
from attnx.hooks import reset_padding_check, unwrap_model
from attnx.pipeline import Postponed, Refused, attempt
from attnx.results import plain
from attnx.results import storage as schema
from attnx.runs.folder import FORMAT, Manifest, Part, RunDir, content_digest
from attnx.runs.sources import MOST_ROWS, DataRow, arrow, parquet, parquet_file

T = TypeVar("T")

Cells: TypeAlias = dict[str, Any]
"""Column → a text, a number, a list, an array of numbers, or a dictionary of plain values."""
RowCallback: TypeAlias = Callable[[], None]
"""Called for each row that is done, for a progress bar."""
FACTS = "facts"
"""The cell of what is known of a row beside its columns: a dictionary of plain values, mostly equal for all rows."""
_REMOVED = "-"


class DatasetTask(ABC, Generic[T]):
    """Explanations, a comparison, a table: a frozen dataclass of plain values, which workers get as it is."""

    name: ClassVar[str]
    """Of the run, in its manifest and in messages."""
    merge_equal: ClassVar[bool] = False
    """Whether rows of a shard with the same input are computed once."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Plain values; where they differ, so may the numbers."""

    def check(self, model: Any) -> None:
        """Raise for settings that this model cannot have, before any input is read."""
        return

    def read(self, model: Any, processor: Any, data: Any) -> Sequence[T]:
        """One input, or a list of them, as requests; by default they are so already."""
        return data if isinstance(data, list) else [data]

    def decided(self, model: Any, processor: Any, things: Sequence[T]) -> dict[str, Any]:
        """Fields of this task that the first inputs decide for all of them; plain values."""
        return {}

    @abstractmethod
    def cells(
        self, model: Any, processor: Any, things: Sequence[T], tick: RowCallback, progress: bool
    ) -> Sequence[Cells]:
        """The cells of each request, with the same columns in all."""

    def columns(self, model: Any, rows: Sequence[Cells]) -> dict[str, str]:
        """Column → kind, by the first rows that have cells."""
        return {name: _kind(value) for name, value in rows[0].items()}

    def stored(self, row: DataRow, cells: Cells | None, columns: Mapping[str, str]) -> Cells:
        """The cells of a row of data as a part keeps them; a row that failed has none."""
        for name in sorted({*cells} ^ {*columns}) if cells is not None else ():
            raise InputError(f"it has {'no ' * (name in columns)}{name}, unlike the first rows")
        return cells or {}

    def result(self, cells: Iterable[Cells], left_out: Mapping[str, int]) -> Any:
        """The result of all rows, in the order of the data; and why others were left out, and how many."""
        raise NotImplementedError


@dataclass(frozen=True)
class Layout:
    """What the first rows decide for all parts of a run."""

    columns: Mapping[str, str]
    """Name → kind of cell."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Those of the first row; other rows store the difference."""
    decided: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, manifest: Manifest) -> Layout:
        """As the manifest has it, which may have been tampered with."""
        try:
            layout = schema.read(cls, manifest.layout)
            layout.schema()
        except (InputError, FileFormatError, KeyError) as error:
            raise FileFormatError(f"the layout of the run is not what attnx wrote: {error}") from error
        return layout

    def schema(self) -> Any:
        """Of Arrow."""
        pa = arrow()
        number, text, whole = pa.float64(), pa.string(), pa.int64()
        kinds = {"text": text, "json": text, "whole": whole, "number": number, "flag": pa.bool_()}
        kinds |= {f"{kind}s": pa.list_(type_) for kind, type_ in kinds.items()} | {"grid": pa.list_(pa.list_(number))}
        row = [("row", "whole"), ("id", "text"), ("sha256", "text")]
        columns = unique_columns([*row, *self.columns.items(), ("error", "text")])
        return pa.schema([(name, kinds[kind]) for name, kind in columns.items()])


def unique_columns(columns: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Name → kind; a name that is there twice is an error."""
    names = [name for name, _ in columns]
    for name in sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"a run has a column {name!r} already; a method cannot be called so")
    return dict(columns)


def with_decisions(task: DatasetTask[T], decisions: Any) -> DatasetTask[T]:
    """The task with what the first inputs decided, which may come from a folder that was tampered with."""
    try:
        return replace(task, **decisions)  # type: ignore[type-var]
    except TypeError as error:
        raise FileFormatError(f"what the run decided is not what attnx wrote: {error!s:.100}") from error


def decisions(task: DatasetTask[Any], model: Any, processor: Any, rows: Sequence[DataRow]) -> dict[str, Any] | None:
    """What these rows decide; None where none of them can be read."""
    requests = [thing for thing in _read(task, model, processor, rows).values() if not isinstance(thing, Refused)]
    return plain(task.decided(model, processor, requests)) if requests else None


def compute(
    task: DatasetTask[Any], model: Any, processor: Any, rows: Sequence[DataRow], on_row: RowCallback = lambda: None
) -> dict[int, Cells | Refused]:
    """The number of each row, and its cells or why it has none.

    Batches are composed of these rows alone and padding is tried on them: nothing that ran before has an influence. A
    row that has not enough memory, even alone, is `Postponed`: that is no failure of the row.
    """
    _forget_padding(model)
    first: dict[Any, DataRow] = {}
    keys = {row.number: (row.sha256, row.problem) if task.merge_equal else row.number for row in rows}
    for row in rows:
        first.setdefault(keys[row.number], row)
    results = _read(task, model, processor, list(first.values()))
    requests = {number: thing for number, thing in results.items() if not isinstance(thing, Refused)}

    def run(numbers: Sequence[int]) -> Sequence[Cells]:
        return task.cells(model, processor, [requests[number] for number in numbers], on_row, False)

    results |= zip(requests, attempt(list(requests), run, postpone=True), strict=True)
    return {row.number: results[first[keys[row.number]].number] for row in rows}


def _read(task: DatasetTask[T], model: Any, processor: Any, rows: Sequence[DataRow]) -> dict[int, T | Refused]:
    def read(batch: Sequence[DataRow]) -> Sequence[T]:
        (row,) = batch
        if row.problem:
            raise InputError(row.problem)
        requests = task.read(model, processor, row.input)
        if len(requests) != 1:
            raise InputError(f"a row is one input, found a batch of {len(requests)}; give each a row")
        return requests

    return {row.number: attempt([row], read, postpone=True)[0] for row in rows}


def _forget_padding(model: Any) -> None:
    for module in unwrap_model(model).modules():  # a tower may be what is run
        reset_padding_check(module)


def compute_in_memory(
    task: DatasetTask[T], model: Any, processor: Any, data: Any, *, shard_rows: int | None, progress: bool
) -> Any:
    """The result of inputs that are in memory; one that cannot be computed is an error."""
    size = shard_rows or MOST_ROWS
    requests = task.read(model, processor, data)
    task = with_decisions(task, plain(task.decided(model, processor, requests[:size])))
    rows: list[Cells] = []
    for start in range(0, len(requests), size):
        _forget_padding(model)
        rows += task.cells(model, processor, requests[start : start + size], lambda: None, progress)
    return task.result(rows, {})


def layout_of(
    task: DatasetTask[Any], model: Any, results: Mapping[int, Cells | Refused], decided: Mapping[str, Any]
) -> Layout | None:
    """The layout of these rows and all others; None where none of them has cells."""
    rows = [cells for cells in results.values() if not isinstance(cells, Refused)]
    if not rows:
        return None
    layout = Layout(task.columns(model, rows), rows[0].get(FACTS, {}), decided)
    layout.schema()
    return layout


def _kind(value: Any) -> str:
    if isinstance(value, Mapping):
        return "json"
    if isinstance(value, (str, bool, int)):
        return {str: "text", bool: "flag"}.get(type(value), "whole")
    return ("number", "numbers", "grid")[getattr(value, "ndim", 0)]


@dataclass(frozen=True)
class PartContent:
    """A part, ready to be written."""

    content: bytes
    rows: int
    """Fewer than the shard has where memory was short."""
    failed: int
    """Rows that could not be computed; their column `error` says why."""
    held: int
    """Bytes of the table in memory."""


def part_content(
    task: DatasetTask[Any], rows: Sequence[DataRow], results: Mapping[int, Cells | Refused], layout: Layout
) -> PartContent:
    """The shard function: rows of data, with what was computed for them, as a table in Parquet."""
    table = [
        _stored(task, row, results[row.number], layout)
        for row in rows
        if not isinstance(results[row.number], Postponed)
    ]
    about = {"format": FORMAT, "task": task.name, "columns": layout.columns, "facts": layout.facts}
    schema = layout.schema().with_metadata({"attnx": json.dumps(about)})
    arrays = [
        arrow().array([cells.get(name) for cells in table], type=schema.field(name).type) for name in schema.names
    ]
    file = BytesIO()
    arrow_table = arrow().Table.from_arrays(arrays, schema=schema)
    parquet().write_table(arrow_table, file, compression="zstd", write_page_checksum=True)
    failed = sum(cells["error"] is not None for cells in table)
    return PartContent(file.getvalue(), len(table), failed, arrow_table.nbytes)


def _stored(task: DatasetTask[Any], row: DataRow, result: Cells | Refused, layout: Layout) -> Cells:
    cells, error = (None, result.reason) if isinstance(result, Refused) else (result, None)
    try:
        cells = task.stored(row, cells, layout.columns)
    except InputError as reason:
        cells, error = {}, str(reason)
    if FACTS in cells:
        cells = {**cells, FACTS: difference(layout.facts, cells[FACTS])}
    cells = {name: _as_arrow(value) for name, value in cells.items()}
    return {**cells, "row": row.number, "id": row.id, "sha256": row.sha256, "error": error}


def _as_arrow(value: Any) -> Any:
    """Of a grid lists, of a dictionary its JSON."""
    if isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False) if value else None
    return value.tolist() if getattr(value, "ndim", 0) > 1 else value


def difference(base: Mapping[str, Any], value: Mapping[str, Any]) -> dict[str, Any]:
    """What makes `value` of `base`, dictionary by dictionary: other values, and names that are removed.

    >>> difference({"input": {"cut": 3, "tokens": 9}}, {"input": {"tokens": 9}})
    {'input': {'-': ['cut']}}
    """
    change = {
        name: difference(base[name], member) if _both_nested(base.get(name), member) else member
        for name, member in value.items()
        if name not in base or base[name] != member
    }
    removed = [name for name in base if name not in value]
    return {**change, _REMOVED: removed} if removed else change


def changed(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """The value whose `difference` from `base` is `change`."""
    value = {name: member for name, member in base.items() if name not in change.get(_REMOVED, ())}
    for name, member in change.items():
        if name != _REMOVED:
            value[name] = changed(value[name], member) if _both_nested(value.get(name), member) else member
    return value


def _both_nested(base: Any, value: Any) -> bool:
    return isinstance(base, Mapping) and isinstance(value, Mapping)


def cells_of(row: Mapping[str, Any], layout: Layout) -> Cells:
    """The cells that a task gave for a row, from a part of its run."""
    try:
        cells = {
            name: json.loads(row[name] or "{}") if kind == "json" else row[name]
            for name, kind in layout.columns.items()
        }
        return {**cells, FACTS: changed(layout.facts, cells[FACTS])} if FACTS in cells else cells
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise FileFormatError(f"row {row['row']} of the run is not what attnx wrote: {error!s:.80}") from error


def stored_rows(
    run_dir: RunDir, manifest: Manifest, parts: Iterable[Part], schema: Any = None, columns: Sequence[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Every row of these parts as a dictionary, all columns or these."""
    for part in parts:
        for batch in read_part(run_dir, part, manifest, schema, columns).to_batches(max_chunksize=256):
            yield from batch.to_pylist()


def is_intact(run_dir: RunDir, part: Part) -> bool:
    """Whether the file is the one that was written under this name."""
    return content_digest(run_dir.read(part.name)) == part.content


def read_part(
    run_dir: RunDir, part: Part, manifest: Manifest, schema: Any = None, columns: Sequence[str] | None = None
) -> Any:
    """The table of a part, all columns or these.

    It must be the file that was written, hold the rows that its name says, and have the columns of a `schema`.
    """
    content = run_dir.read(part.name)
    try:
        if content_digest(content) != part.content:
            raise ValueError("its content is not what was written")
        file = parquet_file(arrow().BufferReader(content))
        if schema is not None and not file.schema_arrow.equals(schema):
            raise ValueError("it has other columns than the run")
        names = file.schema_arrow.names if columns is None else list(columns)
        table = file.read(columns=list({"row": None, **dict.fromkeys(names)}), use_threads=False)
        table.validate(full=True)
        rows = table["row"].to_pylist()
        if len(rows) != part.rows or any(row is None or manifest.shard_of(row) != part.number for row in rows):
            raise ValueError("its rows are those of another part")
        return table.select(names)
    except (OSError, ValueError, KeyError) as error:
        raise FileFormatError(
            f"{part.name} in {run_dir.name} is damaged ({error!s:.80}); the same command runs its rows again"
        ) from error
