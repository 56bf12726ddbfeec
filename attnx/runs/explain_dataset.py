"""Where the rows of a question are kept, and who measures them: here and in memory, or in a folder, by any engine."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar

from attnx.arguments import checked
from attnx.errors import AttnxError, ChoiceError, FileFormatError, InputError, whole_number
from attnx.hooks import reset_padding_check, unwrap_model
from attnx.methods import PAPER_METHODS
from attnx.pipeline import (
    LAST,
    Choices,
    GivenModel,
    Postponed,
    Refused,
    Request,
    Settings,
    given_model,
    takes_pipelines,
)
from attnx.results import Explanation, plain
from attnx.runs import folder as manifests
from attnx.runs.engine import SHORT, Engine, Runner, engine_of
from attnx.runs.folder import Place, as_setting
from attnx.runs.question import PartAnswer, RowCallback, answered, first_outputs
from attnx.runs.run import Run, failed_rows, manifest_of
from attnx.runs.sources import MOST_ROWS, Column, Columns, DataRow, arrow, source_of
from attnx.runs.table import FORMAT, Layout, as_part, explained_cells, is_right, named_cells, read_part

if TYPE_CHECKING:
    from attnx.attribution import AskedReferences
    from attnx.evaluation import Recommendation

T = TypeVar("T")
Cells: TypeAlias = dict[str, Any]
"""A row of a table: column → a text, a number, an array of numbers, or a dictionary of plain values."""


@dataclass(frozen=True)
class ExplanationsQuestion:
    """Asked with these options of `explain`."""

    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return "explanations"

    def settings(self) -> dict[str, Any]:
        return {name: as_setting(value) for name, value in sorted(self.options.items()) if value is not None}

    def begin(self, model: Any, processor: Any, rows: Sequence[DataRow]) -> dict[str, Any]:
        choices = Choices.of(model, **self.options)
        seen = first_outputs(
            rows, lambda some: _explained(choices, processor, some, lambda explanation: explanation, lambda: None)
        )
        layout = Layout.of(_methods(choices.settings), tuple(choices.references), seen)
        made: dict[str, Any] = plain(asdict(layout))
        return made

    def part(
        self, model: Any, processor: Any, rows: Sequence[DataRow], layout: Mapping[str, Any], tick: RowCallback
    ) -> PartAnswer:
        kept = Layout.from_dict(layout)
        choices = Choices.of(model, **self.options)
        found = _explained(choices, processor, rows, lambda explanation: explained_cells(explanation, kept), tick)
        cells = [_cells(row, found[row.number]) for row in rows if not isinstance(found[row.number], Postponed)]
        return as_part(cells, kept.schema(), {"format": FORMAT, **layout})


def _explained(
    choices: Choices, processor: Any, rows: Sequence[DataRow], kept: Callable[[Explanation], T], tick: RowCallback
) -> dict[int, T | Refused]:
    """The number of each row, and what is kept of its explanation, or why there is none.

    Rows that are the same are explained once. Batches are composed of these rows alone, and padding is tried on them:
    nothing that ran before has a say.
    """
    first: dict[str, DataRow] = {}
    for row in rows:
        first.setdefault(row.sha256 + row.problem, row)
    reset_padding_check(choices.model)

    def run(requests: Sequence[Request]) -> list[T]:
        made: dict[int, T] = {}
        for number, explanation in choices.call(processor, requests).explanations():
            made[number] = kept(explanation)
            tick()
        return [made[number] for number in range(len(requests))]

    found = answered(list(first.values()), lambda given: choices.requests(processor, given)[0], run)
    return {row.number: found[first[row.sha256 + row.problem].number] for row in rows}


def _cells(row: DataRow, found: Mapping[str, Any] | Refused) -> dict[str, Any]:
    if isinstance(found, Refused):
        return named_cells(row, found.reason)
    cells = {**named_cells(row), **found}
    return {**cells, "right": is_right(cells)}


def _methods(settings: Settings) -> tuple[str, ...]:
    return PAPER_METHODS if settings.methods is None else tuple(method.name for method in settings.methods)


@takes_pipelines("data")
@checked
def explain_dataset(
    model: Any,
    tokenizer: Any = None,
    data: Any = None,
    *,
    column: Column = None,
    output: str | PathLike[str] = "",
    methods: Sequence[str] | str | Recommendation | None = None,
    references: AskedReferences | None = None,
    layer: int | str | None = None,
    gold: str | None = None,
    id_column: str | None = None,
    shard_rows: int | None = None,
    engine: str | Engine | None = None,
    workers: int | None = None,
    num_gpus: float = 0,
    progress: bool = True,
    **options: Any,
) -> Run:
    """Explain every row of `data`, and keep the answers as Parquet files in the folder `output`.

    `data` is a list, a generator, a table of pandas or of the datasets library, or the path of a file or of a folder of
    images. `column` has the texts (`text` or the like), two of them make pairs; `gold` the right labels (`label` or the
    like), `id_column` the names of rows. `model` may be a pipeline, a directory or a hub id, without a tokenizer.
    `layer` is the last unless you say which; "all" keeps every one. Further `options` are those of `explain`.

    The same call resumes a run that was stopped or killed; other data (also more rows), another model or other settings
    in the same folder are an error. A row that cannot be explained says why in its column `error`, and the run goes on.
    Rows for which memory was short are left out, and the run is not complete: the same call runs them again.

    Rows are run in shards of `shard_rows`: no more are in memory, and no more are lost if the run is killed. By default
    a shard is about half a minute of work, by the time of the first rows, and at most 1,024 rows. `engine="ray"`, or
    the address of a cluster, has `workers` do them, each with `num_gpus`.

    >>> model, tokenizer = attnx.load_demo()
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> texts = ["the keys to the cabinet", "the boy near the girls"]
    >>> run = explain_dataset(model, tokenizer, texts, output=folder, methods="rollout", progress=False)
    >>> len(run), run.complete
    (2, True)
    """
    given = given_model(model, tokenizer)
    if not output:
        raise InputError("say where the run is kept: output='run/', a folder or an address that fsspec knows")
    asked = _options(methods, references, layer, options)
    Choices.of(given.model, **asked)  # a wrong setting is told before any row is read
    Runner(
        ExplanationsQuestion(asked),
        given,
        source_of(data, Columns(column, gold, id_column)),
        Place.of(output),
        engine_of(engine, workers, num_gpus),
        None if shard_rows is None else whole_number("shard_rows", shard_rows),
        bool(progress),
    ).run()
    return Run.load(output)


def _options(methods: Any, references: Any, layer: Any, options: Any) -> dict[str, Any]:
    """Those of `explain` that were chosen; what would make rows of unlike size is refused."""
    if options.get("all_queries") or options.get("head") == "all":
        raise ChoiceError(
            "a row of a data set keeps one score a position: leave all_queries and head='all' out, or use explain"
        )
    for name in ("position", "target"):
        if isinstance(options.get(name), list):
            raise ChoiceError(f"{name} is one for all rows of a data set, found a list")
    asked = {"methods": methods, "references": references, **options}
    asked["layer"] = None if layer == "all" else LAST if layer is None else layer
    return {name: value for name, value in asked.items() if value is not None}


ROWS_FORMAT = 1
"""Of the columns of parts. It rises when one changes its meaning."""


class DatasetTask(ABC, Generic[T]):
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
    def cells(
        self, model: Any, processor: Any, things: Sequence[T], tick: RowCallback, progress: bool
    ) -> Sequence[Cells]:
        """For each thing its cells, the same columns in all: texts, numbers, arrays, and plain dictionaries."""

    @abstractmethod
    def result(self, cells: Iterable[Cells], left_out: Mapping[str, int]) -> Any:
        """What all rows say, in the order of the data; and why others were left out, and how many."""


def in_memory(
    measurement: DatasetTask[T], model: Any, processor: Any, given: Any, *, shard_rows: int, progress: bool
) -> Any:
    """The result of inputs that are held; one that cannot be measured is an error."""
    things = measurement.read(model, processor, given)
    known = _known(measurement, plain(measurement.decided(model, processor, things[:shard_rows])))
    rows: list[Cells] = []
    for start in range(0, len(things), shard_rows):
        reset_padding_check(unwrap_model(model))
        rows += known.cells(model, processor, things[start : start + shard_rows], lambda: None, progress)
    return known.result(rows, {})


@dataclass(frozen=True)
class MeasurementQuestion(Generic[T]):
    """The question of a run: the same measurement, whose rows are kept."""

    measurement: DatasetTask[T]

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
        seen = first_outputs(rows, lambda some: _asked(known, model, processor, some, lambda: None))
        return {"decided": decided, "columns": {name: _kind(value) for name, value in seen[0].items()}}

    def part(
        self, model: Any, processor: Any, rows: Sequence[DataRow], layout: Mapping[str, Any], tick: RowCallback
    ) -> PartAnswer:
        known = _known(self.measurement, layout["decided"])
        found = _asked(known, model, processor, rows, tick)
        columns = layout["columns"]
        cells = [
            _whole(row, found[row.number], columns) for row in rows if not isinstance(found[row.number], Postponed)
        ]
        return as_part(cells, _schema(columns), {"format": ROWS_FORMAT, "question": self.name, **layout})

    def result(self, place: Place) -> Any:
        """What the rows of a finished run say together."""
        known = _known(self.measurement, manifest_of(place).layout.get("decided"))
        return known.result(_rows(place), _left_out(place))


def _known(measurement: DatasetTask[T], decided: Any) -> DatasetTask[T]:
    """With what was decided for all shards, which may come from a folder that was tampered with."""
    try:
        return replace(measurement, **decided)  # type: ignore[type-var]
    except TypeError as error:
        raise FileFormatError(f"what the run decided is not what attnx wrote: {error!s:.100}") from error


def _asked(
    measurement: DatasetTask[T], model: Any, processor: Any, rows: Sequence[DataRow], tick: RowCallback
) -> dict[int, Cells | Refused]:
    reset_padding_check(unwrap_model(model))
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
    return named | {name: _stored(value) for name, value in found.items()}


def _stored(value: Any) -> Any:
    """As Arrow takes it: of arrays within arrays lists, of a dictionary its JSON."""
    if isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False)
    return value.tolist() if getattr(value, "ndim", 0) > 1 else value


def _rows(place: Place) -> Iterator[Cells]:
    """The cells of all rows that have them."""
    manifest = manifest_of(place)
    columns: Mapping[str, str] = manifest.layout.get("columns", {})
    schema = _schema(columns)
    for part in manifests.parts(place).values():
        for batch in read_part(place, part, manifest.shard_rows, schema=schema).to_batches(max_chunksize=256):
            for cells in batch.to_pylist():
                if cells["error"] is None:
                    yield {name: _read_back(value, columns[name]) for name, value in cells.items() if name in columns}


def _read_back(value: Any, kind: str) -> Any:
    try:
        return json.loads(value) if kind == "json" else value
    except (ValueError, TypeError, RecursionError) as error:
        raise FileFormatError(f"a row of the run is not what attnx wrote: {error!s:.80}") from error


def _left_out(place: Place) -> Counter[str]:
    """Why the others have none, and of how many that is so."""
    return Counter(row.error for row in failed_rows(place, manifests.parts(place).values(), manifest_of(place)))


_OWN = ("row", "id", "sha256", "error")


def _kind(value: Any) -> str:
    if isinstance(value, Mapping):
        return "json"
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
        "json": pa.string(),
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


@dataclass(frozen=True)
class OutputOptions:
    """The options that a question shares with `explain_dataset`."""

    output: str | PathLike[str] | None = None
    """The folder of the run; None for inputs that are held in memory, whose rows nobody keeps."""
    column: Column = None
    shard_rows: int | None = None
    engine: str | Engine | None = None
    workers: int | None = None
    num_gpus: float = 0

    @classmethod
    def taken(cls, output: Any, options: Mapping[str, Any]) -> tuple[OutputOptions, dict[str, Any]]:
        """These among the further options of a question, and the others."""
        names = {one.name for one in fields(cls)} - {"output"}
        own = {name: value for name, value in options.items() if name in names}
        rest = {name: value for name, value in options.items() if name not in names}
        idle = [name for name in own if name != "shard_rows"]
        if output is None and idle:
            raise ChoiceError(f"{idle[0]} is for a run in a folder: give output='run/', too")
        if output is not None:
            for name in ("position", "target"):
                if isinstance(options.get(name), list):
                    raise ChoiceError(f"{name} is one for all rows of a data set, found a list")
        made = cls(output, **own)
        if made.shard_rows is not None and whole_number("shard_rows", made.shard_rows) < 1:
            raise InputError(f"shard_rows must be at least 1, found {made.shard_rows}")
        return made, rest

    def inside(self, name: str) -> OutputOptions:
        """The same, in a folder of this name in the folder, for one of several measurements."""
        return self if self.output is None else replace(self, output=f"{fspath(self.output).rstrip('/')}/{name}")

    def options(self) -> dict[str, Any]:
        """As arguments of a question that is asked by its name."""
        only_here = {"shard_rows": self.shard_rows}
        return only_here if self.output is None else {one.name: getattr(self, one.name) for one in fields(self)}

    def result(self, measurement: DatasetTask[Any], given: GivenModel, data: Any, *, progress: bool) -> Any:
        """What the measurement says of the data: what is held, or with a folder all that `explain_dataset` takes."""
        if self.output is None:
            size = self.shard_rows or MOST_ROWS
            return in_memory(measurement, given.model, given.processor, data, shard_rows=size, progress=progress)
        measurement.check(given.model)
        question, place = MeasurementQuestion(measurement), Place.of(self.output)
        engine = engine_of(self.engine, self.workers, self.num_gpus)
        source = source_of(data, Columns(self.column))
        travel = Runner(question, given, source, place, engine, self.shard_rows, bool(progress))
        if not travel.run().complete:
            raise AttnxError(f"there is no result yet: {SHORT}")
        return question.result(place)
