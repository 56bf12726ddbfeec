"""`explain_dataset`, and the run that it returns: read from its folder as it is needed, one shard in memory at most."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnx.arguments import PAGES, checked, file_of, replacing
from attnx.errors import AttnxError, ChoiceError, FileFormatError, InputError, whole_number
from attnx.pipeline import LAST, given_model, takes_pipelines
from attnx.registry import quoted, unknown
from attnx.results import VIEWS, Explanation
from attnx.results import storage as schema
from attnx.runs.engine import Engine, engine_of
from attnx.runs.explanations import ExplanationTask, explanation_of
from attnx.runs.folder import Manifest, Part, RunDir, existing_manifest, is_complete, parts
from attnx.runs.runner import Failed, Runner, check_one_for_all, failed_rows
from attnx.runs.sources import Column, Columns, arrow, source_of
from attnx.runs.summary import RunSummary, summarize
from attnx.runs.task import Layout, read_part, stored_rows

if TYPE_CHECKING:
    import pandas

    from attnx.attribution import AskedReferences
    from attnx.evaluation import Recommendation


@takes_pipelines("data")
@checked
def explain_dataset(
    model: Any,
    tokenizer: Any = None,
    data: Any = None,
    *,
    column: Column = None,
    run_dir: str | PathLike[str] = "",
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
    """Explain every row of `data`, and write the explanations as Parquet files to a folder.

    The same call resumes a run that was stopped or killed; other data (also more rows), another model or other settings
    in the same folder are an error. A row that cannot be explained says why in its column `error`, and the run goes on.
    Rows for which memory was short are left out, and the run is not complete: the same call runs them again.

    Args:
        model: A model, a pipeline, a directory or a hub id; the last three need no tokenizer.
        tokenizer: The tokenizer or processor of the model.
        data: A list, a generator, a table of pandas or of the datasets library, or the path of a file or of a folder of
            images.
        column: The column of the texts (`text` or the like); two of them make pairs.
        run_dir: The folder, or an address that fsspec knows.
        methods: As in `explain`.
        references: As in `explain`.
        layer: A layer from 1, or "all"; by default the last.
        gold: The column of the right labels (`label` or the like).
        id_column: The column of the names of rows.
        shard_rows: Rows of a file: no more are in memory, and no more are lost if the run is killed. By default files
            grow from one row until they take half a minute of work, up to 1,024 rows.
        engine: "ray", or the address of a cluster, for many processes.
        workers: How many of them.
        num_gpus: GPUs of each worker.
        progress: Whether an estimate and a progress bar are shown.
        **options: Those of `explain`.

    Returns:
        The run, whose rows are read when they are needed.

    Raises:
        InputError: The folder holds another run, or no row can be explained.

    Example:
        >>> model, tokenizer = attnx.load_demo()
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> texts = ["the keys to the cabinet", "the boy near the girls"]
        >>> run = explain_dataset(model, tokenizer, texts, run_dir=folder, methods="rollout", progress=False)
        >>> len(run), run.complete
        (2, True)
    """
    if not run_dir:
        raise InputError("say where the run is kept: run_dir='run/', a folder or an address that fsspec knows")
    if options.get("all_queries") or options.get("head") == "all":
        raise ChoiceError(
            "a row of a data set keeps one score a position: leave all_queries and head='all' out, or use explain"
        )
    check_one_for_all(options)
    options |= {"methods": methods, "references": references}
    options["layer"] = None if layer == "all" else LAST if layer is None else layer
    task = ExplanationTask({name: value for name, value in options.items() if value is not None})
    loaded = given_model(model, tokenizer)
    task.check(loaded.model)
    source, run_engine = source_of(data, Columns(column, gold, id_column)), engine_of(engine, workers, num_gpus)
    size = None if shard_rows is None else whole_number("shard_rows", shard_rows)
    Runner(task, loaded, source, RunDir.of(run_dir), run_engine, size, bool(progress)).run()
    return Run.load(run_dir)


@dataclass(frozen=True)
class Status:
    """Of a run."""

    manifest: Manifest
    rows: int
    """Those that are there, failed ones included."""
    parts: int
    complete: bool
    running: bool
    """Whether a process is writing to it at this moment."""
    failed: list[Failed]


def status_of(run_dir: str | PathLike[str]) -> Status:
    """How far the run in a folder is, whatever its task."""
    folder = RunDir.of(run_dir)
    manifest = existing_manifest(folder)
    finished = list(parts(folder).values())
    failed = list(failed_rows(folder, manifest, finished))
    rows, complete = sum(part.rows for part in finished), is_complete(manifest, finished)
    return Status(manifest, rows, len(finished), complete, folder.is_locked(), failed)


@dataclass(frozen=True)
class Common:
    """What nearly all explanations of a run share."""

    attributions: Mapping[str, Mapping[str, Any]]
    layers: tuple[int, ...]
    diagnostics: Mapping[str, tuple[str, ...]]
    causal: bool
    provenance: Mapping[str, Any]

    @property
    def names(self) -> tuple[str, ...]:
        """All methods, the default in front."""
        return tuple(self.attributions)

    @property
    def default(self) -> str:
        """The one that is shown first."""
        return self.names[0]


class Run:
    """Explanations of a data set. `run[7]` is one, `for e in run` all, `run.failed` what could not be explained.

    Example:
        >>> model, tokenizer = attnx.load_demo()
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> texts = ["the keys to the cabinet", "the boy near the girls"]
        >>> run = explain_dataset(model, tokenizer, texts, run_dir=folder, methods="rollout", progress=False)
        >>> print(run[1].prediction)
        singular (0.998)
    """

    def __init__(self, run_dir: RunDir, manifest: Manifest) -> None:
        self.run_dir, self.manifest = run_dir, manifest
        self._last: tuple[str, Any] | None = None

    @classmethod
    def load(cls, run_dir: str | PathLike[str]) -> Run:
        """The run that `explain_dataset` or `attnx run` wrote there, as far as it got."""
        folder = RunDir.of(run_dir)
        manifest = existing_manifest(folder)
        if manifest.task != ExplanationTask.name:
            raise InputError(f"{folder.name} holds a run of {manifest.task}; the same call gives its result again")
        return cls(folder, manifest)

    @cached_property
    def layout(self) -> Layout:
        """The columns, and the facts that all rows share unless they say otherwise."""
        return Layout.of(self.manifest)

    @cached_property
    def _common(self) -> Common:
        """Methods, references and layers, and what else is true of nearly all rows."""
        names = Common.__dataclass_fields__
        try:
            common = schema.read(Common, {name: value for name, value in self.layout.facts.items() if name in names})
        except FileFormatError as error:
            raise FileFormatError(f"the layout of the run is not what attnx wrote: {error}") from error
        if not common.names:
            raise FileFormatError("the layout of the run is not what attnx wrote: it has no method")
        return common

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The shards that were finished when this was first read."""
        return tuple(parts(self.run_dir).values())

    @property
    def complete(self) -> bool:
        """Whether every row is there."""
        return is_complete(self.manifest, self.parts)

    @property
    def running(self) -> bool:
        """Whether a process is writing to it at this moment."""
        return self.run_dir.is_locked()

    @property
    def columns(self) -> list[str]:
        names: list[str] = self.layout.schema().names
        return names

    def __len__(self) -> int:
        """Rows that are there, failed ones included."""
        return sum(part.rows for part in self.parts)

    def __getitem__(self, number: int) -> Explanation:
        """The explanation of the row of that number in the data; of a failed one the error is raised."""
        try:
            number = operator.index(number)
        except TypeError:
            raise ChoiceError(
                f"a row is named by its number in the data, an int from 0, found {quoted(number)}; the column 'id' has "
                "the names of rows"
            ) from None
        total = self.manifest.rows if self.manifest.rows is not None else len(self)
        index = number + total if number < 0 else number
        if not 0 <= index < total:
            raise IndexError(f"row {number} was requested, but the run has {total:,} rows")
        part = next((part for part in self.parts if part.number == self.manifest.shard_of(index)), None)
        rows = [] if part is None else self._table(part)["row"].to_pylist()
        if part is None or index not in rows:
            raise InputError(
                f"row {index} was not run yet: {len(self):,} of {total:,} rows are there; the same call resumes the run"
            )
        row = self._table(part).slice(rows.index(index), 1).to_pylist()[0]
        if row["error"] is not None:
            raise InputError(f"row {index} could not be explained: {row['error']}")
        return explanation_of(row, self.layout)

    def __iter__(self) -> Iterator[Explanation]:
        """Of all rows that could be explained, in their order."""
        return (explanation for _, explanation in self._explained() if explanation is not None)

    def _explained(self) -> Iterator[tuple[dict[str, Any], Explanation | None]]:
        """Every row, with its explanation unless it failed."""
        for row in self.rows():
            yield row, None if row["error"] is not None else explanation_of(row, self.layout)

    def rows(self, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        """Every row as a dictionary, all columns or these."""
        self._check(columns)
        return stored_rows(self.run_dir, self.manifest, self.parts, self.layout.schema(), columns)

    @property
    def failed(self) -> list[Failed]:
        """Rows that could not be explained, and why."""
        return list(failed_rows(self.run_dir, self.manifest, self.parts))

    def to_table(self, columns: Sequence[str] | None = None) -> Any:
        """A table of Arrow; `columns` keeps it small."""
        self._check(columns)
        schema = self.layout.schema()
        tables = [read_part(self.run_dir, part, self.manifest, schema, columns) for part in self.parts]
        return arrow().concat_tables(tables)

    def to_frame(self, columns: Sequence[str] | None = None) -> pandas.DataFrame:
        """A table of pandas, a row for each text."""
        try:
            import pandas  # noqa: F401
        except ImportError as error:
            raise AttnxError("to_frame needs pandas: pip install pandas") from error
        frame: pandas.DataFrame = self.to_table(columns).to_pandas()
        return frame

    def to_dataset(self) -> Any:
        """A `datasets.Dataset` over the files themselves."""
        try:
            from datasets import Dataset
        except ImportError as error:
            raise AttnxError("to_dataset needs the datasets library: pip install datasets") from error
        if self.run_dir.remote:
            return Dataset(self.to_table())
        return Dataset.from_parquet([str(Path(self.run_dir.name) / part.name) for part in self.parts])

    def summary(self, method: str | None = None) -> RunSummary:
        """For each label which words contribute most and where they are; where the data has another label, too.

        By the method that is shown first, or by another one of the run.
        """
        if method is not None and method not in self._common.names:
            raise ChoiceError(unknown("method", method, self._common.names))
        return summarize(self._explained(), method or self._common.default, method, self._common.provenance)

    def to_html(self, path: str | PathLike[str] | None = None, *, title: str | None = None) -> str | None:
        """A page to search, filter and sort, in one file under 3 MB; of a larger run it has a sample, and says so."""
        file = None if path is None else file_of(path, PAGES, "to_html")
        page: str = VIEWS[RunSummary.kind]().more["run_page"](self, title=title)
        if file is None:
            return page
        try:
            with replacing(file) as temporary:
                Path(temporary).write_text(page, encoding="utf-8", newline="\n")
        except OSError as error:
            raise AttnxError(f"cannot write {file}: {error.strerror or error}") from error
        return None

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        cell: str = VIEWS[RunSummary.kind]().more["run_cell"](self)
        return cell

    def __repr__(self) -> str:
        state = "complete" if self.complete else "running" if self.running else "stopped"
        total = "" if self.manifest.rows is None or self.complete else f" of {self.manifest.rows:,}"
        return f"Run({self.run_dir.name!r}, {len(self):,}{total} rows, {', '.join(self._common.names)}, {state})"

    def _check(self, columns: Sequence[str] | None) -> None:
        for name in columns or ():
            if name not in self.columns:
                raise ChoiceError(unknown("column", name, self.columns))

    def _table(self, part: Part) -> Any:
        """The last one is kept, for rows are often read one after the other."""
        if self._last is None or self._last[0] != part.name:
            self._last = part.name, read_part(self.run_dir, part, self.manifest, self.layout.schema())
        return self._last[1]
