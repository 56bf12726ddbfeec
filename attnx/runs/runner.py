"""Run a task over a data set: in memory, or into a folder where the same call resumes a stopped or killed run.

A part that stands under its name, with the content that the name says, is done, and nothing else is. Unless the caller
chose their size, shards grow from one row until they take half a minute, so that a kill costs no more work than that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from dataclasses import field as dataclass_field
from itertools import chain, islice
from math import log2
from os import PathLike, fspath
from typing import Any

import torch

from attnx.errors import AttnxError, ChoiceError, InputError, duration, whole_number
from attnx.pipeline import GivenModel
from attnx.progress import announce, progress_bar
from attnx.runs import folder
from attnx.runs.engine import Done, Engine, Job, Work, engine_of
from attnx.runs.folder import Manifest, Part, RunDir
from attnx.runs.sources import MOST_ROWS, Column, Columns, DataRow, Shard, Source, shards, source_of
from attnx.runs.task import (
    Cells,
    DatasetTask,
    Layout,
    cells_of,
    compute_in_memory,
    decisions,
    is_intact,
    stored_rows,
    with_decisions,
)

SECONDS = 30.0
"""Of work in a shard, where the caller did not choose its size."""
_TIMED = 4
"""Rows of the first shard by whose time the work is estimated: what is done once is over then."""
MEMORY = "memory was short for some rows; all others are kept, and the same call runs these again"


@dataclass(eq=False)
class Runner:
    """One call that begins a run, or resumes it, and leaves it complete unless memory was short."""

    task: DatasetTask[Any]
    loaded: GivenModel
    source: Source
    run_dir: RunDir
    engine: Engine
    shard_rows: int | None = None
    """None for shards that grow."""
    progress: bool = True

    manifest: Manifest = dataclass_field(init=False)

    def __post_init__(self) -> None:
        self._layout: Layout | None = None
        self._decided: dict[str, Any] = {}
        self._waiting: dict[int, Shard] = {}
        self._shards = self._rows = self._ticked = self._largest = 0
        self._reason, self._estimated = "", False

    def run(self) -> Manifest:
        if self.shard_rows is not None and self.shard_rows < 1:
            raise InputError(f"shard_rows must be at least 1, found {self.shard_rows}")
        folder.read_manifest(self.run_dir)  # a folder of something else is an error before anything is written
        self.run_dir.make()
        with self.run_dir.locked():
            rows = self._begin()
            job = Job(self.task, self.run_dir, self.manifest.threads, self.manifest.fingerprint["model"])
            with progress_bar(self.task.name, self.source.count, self.progress, unit=" rows") as self._bar:
                self.engine.run(job, self.loaded, self._work(rows), self._on_row, self._on_done)
            finished = folder.parts(self.run_dir)
            if any(number >= self._shards for number in finished):
                done = sum(part.rows for part in finished.values())
                raise InputError(
                    f"{self.run_dir.name} holds a run over more data: {done:,} rows in {len(finished):,} shards, there "
                    f"are {self._shards:,} now. Give another folder, or delete it"
                )
            folder.tidy(self.run_dir, finished)
            missing = self._rows - sum(part.rows for part in finished.values())
            self.manifest = (
                replace(self.manifest, complete=False) if missing else folder.completed(self.manifest, finished)
            )
            folder.write_manifest(self.run_dir, self.manifest)
        if missing:
            announce(f"attnx: {missing:,} of {self._rows:,} rows are not in {self.run_dir.name}: {MEMORY}")
        return self.manifest

    def _begin(self) -> Iterator[DataRow]:
        """The manifest of this run, as it is in the folder or will be, and its rows."""
        before = folder.read_manifest(self.run_dir)
        self.manifest = Manifest(
            self.task.name,
            self.shard_rows or (MOST_ROWS if before is None else before.shard_rows),
            folder.fingerprint(self.loaded.model, self.loaded.processor, self.task.settings()),
            self.source.name,
            self.source.count,
            "growing" if self.shard_rows is None else "fixed",
            torch.get_num_threads(),
        )
        if before is not None:
            folder.check_same(self.run_dir, before, self.manifest)
            self.manifest, self._layout = before, Layout.of(before)
            self.task = with_decisions(self.task, self._layout.decided)
            return self.source.rows
        rows: list[DataRow] = []
        while type(self.task).decided is not DatasetTask.decided:
            window = list(islice(self.source.rows, self.manifest.shard_rows))
            rows += window
            decided = decisions(self.task, self.loaded.model, self.loaded.processor, window)
            if decided is not None:
                self._decided, self.task = decided, with_decisions(self.task, decided)
            if decided is not None or not window:
                break
        return chain(rows, self.source.rows)

    def _work(self, rows: Iterator[DataRow]) -> Iterator[Work]:
        """The shards whose part is not there, or not whole."""
        finished = folder.parts(self.run_dir)
        folder.tidy(self.run_dir, finished)
        self._largest = max(finished, default=0)
        failed: list[Shard] = []
        for shard in shards(rows, lambda row: self.manifest.size_at(row)):
            self._shards, self._rows = self._shards + 1, self._rows + len(shard.rows)
            if self._is_done(shard, finished.get(shard.number)):
                self._bar.update(len(shard.rows))
                continue
            alone = self._layout is None or self.manifest.sizes == "growing"
            self._waiting[shard.number] = shard
            yield Work(shard, self._layout, alone)
            if self._layout is None:
                failed.append(shard)
                continue
            for earlier in failed:
                yield Work(earlier, self._layout)
            failed.clear()
        if self._layout is None:
            raise InputError(f"none of the first {self._rows:,} rows can be explained; {self._reason}")

    def _is_done(self, shard: Shard, part: Part | None) -> bool:
        advice = "Give another folder, or delete it"
        if part is None:
            if self.manifest.complete and self._rows > (self.manifest.rows or 0):
                raise InputError(
                    f"{self.run_dir.name} holds a complete run over {self.manifest.rows:,} rows, and the data has "
                    f"more. {advice}"
                )
            return False
        if part.digest != shard.digest:
            raise InputError(
                f"{self.run_dir.name} holds a run over other data: rows {shard.rows[0].number:,} to "
                f"{shard.rows[-1].number:,} are not those that were run ({part.rows:,} rows then, "
                f"{len(shard.rows):,} now). {advice}"
            )
        if part.rows > len(shard.rows) or not is_intact(self.run_dir, part):
            self.run_dir.remove(part.name)
            return False
        return part.rows == len(shard.rows)

    def _on_row(self) -> None:
        self._ticked += 1
        self._bar.update(1)

    def _on_done(self, done: Done) -> None:
        self._bar.update(done.rows - min(self._ticked, done.rows))  # equal rows and bad ones make no tick
        self._ticked = 0
        if done.part is None:
            self._reason = self._reason or done.reason
            if self.progress:
                announce(f"attnx: none of the first {self._rows:,} rows can be explained; {self._reason}")
            return
        shard = self._waiting.pop(done.number)
        if done.layout is not None:
            self._layout = replace(done.layout, decided=self._decided)
            self.manifest = replace(self.manifest, layout=asdict(self._layout))
            folder.write_manifest(self.run_dir, self.manifest)
            self.run_dir.write(folder.part_name(shard, done.part.rows, done.part.content), done.part.content)
        good = done.part.rows - done.part.failed
        if good and self.manifest.sizes == "growing" and done.number:  # what is done once falls into row 0
            self._choose_size(done.number, SECONDS * good / done.seconds)
        if good and self.progress and done.rows >= min(_TIMED, self.manifest.shard_rows) and not self._estimated:
            self._estimated = True
            self._say_estimate(done.rows, done.seconds / done.rows, done.part.held / done.rows)

    def _choose_size(self, number: int, rows: float) -> None:
        """Where shards stop growing, once it is known how many `rows` take `SECONDS`."""
        size = 2 ** (max(number, self._largest) - 1)
        if number >= _TIMED - 1 or rows < 2 * size:
            size = max(size, min(MOST_ROWS, 2 ** int(log2(max(1, rows)))))
            self.manifest = replace(self.manifest, sizes="grown", shard_rows=size)
            folder.write_manifest(self.run_dir, self.manifest)

    def _say_estimate(self, rows: int, seconds: float, held: float) -> None:
        count, size = self.source.count, self.manifest.shard_rows
        whole = f"{count:,} rows in about {duration(seconds * count)}" if count else "rows without end"
        memory = max(1, held * size * 3 / 2**20)  # as cells, as a table, as a file
        announce(
            f"attnx: {whole}, by {rows} of them ({1 / seconds:,.0f} a second in a process); about {memory:,.0f} MB for "
            f"a shard of {size:,} rows"
        )


@dataclass(frozen=True)
class Failed:
    """A row that could not be computed."""

    row: int
    id: str
    error: str


def failed_rows(run_dir: RunDir, manifest: Manifest, parts: Iterable[Part]) -> Iterator[Failed]:
    for row in stored_rows(run_dir, manifest, parts, columns=("row", "id", "error")):
        if row["error"] is not None:
            yield Failed(row["row"], row["id"], row["error"])


@dataclass(frozen=True)
class OutputOptions:
    """The options that every task over a data set shares with `explain_dataset`."""

    run_dir: str | PathLike[str] | None = None
    """The folder of the run; None for inputs in memory."""
    column: Column = None
    shard_rows: int | None = None
    engine: str | Engine | None = None
    workers: int | None = None
    num_gpus: float = 0

    @classmethod
    def taken(cls, run_dir: Any, options: Mapping[str, Any]) -> tuple[OutputOptions, dict[str, Any]]:
        """These among the further options of a function, and the others."""
        names = {field.name for field in fields(cls)} - {"run_dir"}
        taken = {name: value for name, value in options.items() if name in names}
        others = {name: value for name, value in options.items() if name not in names}
        unused = [name for name in taken if name != "shard_rows"]
        if run_dir is None and unused:
            raise ChoiceError(f"{unused[0]} is for a run in a folder: give run_dir='run/', too")
        if run_dir is not None:
            check_one_for_all(options)
        rows = taken.get("shard_rows")
        if rows is not None and whole_number("shard_rows", rows) < 1:
            raise InputError(f"shard_rows must be at least 1, found {rows}")
        return cls(run_dir, **taken), others

    def inside(self, name: str) -> OutputOptions:
        """The same, in a folder of this name in the folder, for one of several tasks."""
        return self if self.run_dir is None else replace(self, run_dir=f"{fspath(self.run_dir).rstrip('/')}/{name}")

    def options(self) -> dict[str, Any]:
        """As arguments of a function that takes them."""
        used = (
            fields(self)
            if self.run_dir is not None
            else [field for field in fields(self) if field.name == "shard_rows"]
        )
        return {field.name: getattr(self, field.name) for field in used}

    def result(self, task: DatasetTask[Any], loaded: GivenModel, data: Any, *, progress: bool) -> Any:
        """The result of inputs in memory, or with a folder of all that `explain_dataset` takes."""
        if self.run_dir is None:
            return compute_in_memory(
                task, loaded.model, loaded.processor, data, shard_rows=self.shard_rows, progress=progress
            )
        task.check(loaded.model)
        run_dir, source = RunDir.of(self.run_dir), source_of(data, Columns(self.column))
        engine = engine_of(self.engine, self.workers, self.num_gpus)
        manifest = Runner(task, loaded, source, run_dir, engine, self.shard_rows, bool(progress)).run()
        if not manifest.complete:
            raise AttnxError(f"there is no result yet: {MEMORY}")
        return result_of(task, run_dir)


def result_of(task: DatasetTask[Any], run_dir: RunDir) -> Any:
    """The result of a finished run, from its folder."""
    manifest = folder.existing_manifest(run_dir)
    task = with_decisions(task, Layout.of(manifest).decided)
    left_out = Counter(row.error for row in failed_rows(run_dir, manifest, folder.parts(run_dir).values()))
    return task.result(finished_cells(run_dir), left_out)


def finished_cells(run_dir: RunDir) -> Iterator[Cells]:
    """The cells of all rows that have them."""
    manifest = folder.existing_manifest(run_dir)
    layout = Layout.of(manifest)
    for row in stored_rows(run_dir, manifest, folder.parts(run_dir).values(), layout.schema()):
        if row["error"] is None:
            yield cells_of(row, layout)


def check_one_for_all(options: Mapping[str, Any]) -> None:
    """A list of positions or targets is for a list of inputs, and a data set is not one."""
    for name in ("position", "target"):
        if isinstance(options.get(name), list):
            raise ChoiceError(f"{name} must be the same for all rows of a data set, found a list")
