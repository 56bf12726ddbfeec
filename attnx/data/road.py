"""The one way over data: begin a run or find it begun, skip what is there, have the rest done, and say so.

A run that was stopped or killed goes on where it was by the same call: a part that stands under its name, with the
content that the name says, is done, and nothing else is. Shards that were not finished are done again, one for each
worker at most. How many rows a shard has is decided once, when a run begins, and stands in the manifest: by the time
that the first rows take, so that a kill costs half a minute of work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import inf, log2
from typing import Any

import torch

from attnx.data import manifest as manifests
from attnx.data.answered import TRIED, NoAnswerError
from attnx.data.engine import Done, Engine, Job, threads
from attnx.data.fingerprint import fingerprint
from attnx.data.lock import alone
from attnx.data.manifest import Manifest, Part, check_part
from attnx.data.part import intact
from attnx.data.place import Place
from attnx.data.question import Question
from attnx.data.row import MOST_ROWS, DataRow, Shard, shards
from attnx.data.source import Source
from attnx.errors import InputError
from attnx.running.batches import bar
from attnx.running.given_model import GivenModel
from attnx.running.late_bar import announce

SECONDS = 30.0
"""Of work in a shard, where nobody chose its size: measured on a few rows, so it may be twice as much."""
SHORT = "memory was short for some rows; all others are kept, and the same call runs these again"


@dataclass(frozen=True, eq=False)
class Travel:
    """What is asked, of what, where to, by whom."""

    question: Question
    given: GivenModel
    source: Source
    place: Place
    engine: Engine
    shard_rows: int | None = None
    """None for as many as are done in `SECONDS`."""
    progress: bool = True

    def run(self) -> Manifest:
        """Go on until every row is done; the manifest then says so, unless memory was short for some."""
        if self.shard_rows is not None and self.shard_rows < 1:
            raise InputError(f"shard_rows must be at least 1, found {self.shard_rows}")
        manifests.read(self.place)  # a folder of something else is found out before anything is written
        self.place.make()
        with alone(self.place):
            begun, rows = self._begun()
            there = manifests.parts(self.place)
            manifests.tidy(self.place, there)
            job = Job(self.question, self.place, begun.layout, begun.threads, begun.fingerprint["model"])
            counted = _Counted(self.place, shards(rows, begun.shard_rows), there, begun)
            self._go(job, counted)
            finished = manifests.parts(self.place)
            self._check_end(finished, counted.shards)
            manifests.tidy(self.place, finished)
            left = counted.rows - sum(one.rows for one in finished.values())
            done = manifests.completed(begun, finished) if not left else replace(begun, complete=False)
            manifests.write(self.place, done)
        if left:
            announce(f"attnx: {left:,} of {counted.rows:,} rows are not in {self.place.name}: {SHORT}")
        return done

    def _begun(self) -> tuple[Manifest, Iterator[DataRow]]:
        """The manifest of this run, written now or before, and its rows."""
        print_ = fingerprint(self.given.model, self.given.processor, self.question.settings())
        before = manifests.read(self.place)
        now = Manifest(
            self.question.name,
            self.shard_rows or (MOST_ROWS if before is None else before.shard_rows),
            print_,
            self.source.name,
            self.source.count,
            threads=torch.get_num_threads() if before is None else before.threads,
        )
        if before is not None:
            manifests.check_same(self.place, before, now)
            return before, self.source.rows
        read: list[DataRow] = []
        start = time.perf_counter()
        layout, first = self._layout(read)
        begun = replace(now, layout=layout)
        most = (time.perf_counter() - start) / min(TRIED, len(first)) * (self.source.count or inf)
        if self.progress or (self.shard_rows is None and most > SECONDS):
            begun = self._estimated(first, begun)
        manifests.write(self.place, begun)
        return begun, chain(read, self.source.rows)

    def _layout(self, read: list[DataRow]) -> tuple[dict[str, Any], Sequence[DataRow]]:
        """What the first shard with a row that can be explained tells of all, and that shard; all that was `read`."""
        reason = None
        for shard in shards(self.source.rows, self.shard_rows or MOST_ROWS):
            read += shard.rows
            try:
                return self.question.begin(self.given.model, self.given.processor, shard.rows), shard.rows
            except NoAnswerError as error:
                reason = reason or str(error)
                if self.progress:
                    announce(f"attnx: none of the first {len(read):,} rows can be explained; {reason}")
        raise InputError(f"none of the first {len(read):,} rows can be explained; {reason}")

    def _go(self, job: Job, counted: _Counted) -> None:
        """Have all missing shards done."""
        with bar(self.question.name, self.source.count, self.progress, unit=" rows") as shown:
            ticked = 0

            def tick() -> None:
                nonlocal ticked
                ticked += 1
                shown.update(1)

            def told(done: Done) -> None:
                nonlocal ticked
                shown.update(done.rows - min(ticked, done.rows))  # rows that were alike, or bad, made no tick
                ticked = 0

            self.engine.run(job, self.given, counted.missing(shown.update), tick, told)

    def _check_end(self, finished: dict[int, Part], seen: int) -> None:
        beyond = [number for number in finished if number >= seen]
        if beyond:
            rows = sum(one.rows for one in finished.values())
            raise InputError(
                f"{self.place.name} holds a run over more data: {rows:,} rows in {len(finished):,} shards, there are "
                f"{seen:,} now. Give another folder, or delete it"
            )

    def _estimated(self, first: Sequence[DataRow], begun: Manifest) -> Manifest:
        """With the size of shards, by rows that were run before, so that nothing is loaded or compiled any more."""
        for begin in range(0, len(first), TRIED):
            rows = first[begin : begin + TRIED]
            start = time.perf_counter()
            with threads(begun.threads):
                answer = self.question.part(self.given.model, self.given.processor, rows, begun.layout, lambda: None)
            if answer.failed < answer.rows:  # those that fail take no time
                break
        each = (time.perf_counter() - start) / len({row.sha256 for row in rows})
        if self.shard_rows is None and each * (self.source.count or inf) > SECONDS:
            begun = replace(begun, shard_rows=min(MOST_ROWS, 2 ** max(0, int(log2(SECONDS / each)))))
        if self.progress:
            self._say_estimate(len(rows), each, answer.held / len(rows) * begun.shard_rows, begun.shard_rows)
        return begun

    def _say_estimate(self, tried: int, each: float, held: float, shard_rows: int) -> None:
        known = (
            f"{self.source.count:,} rows in about {_duration(each * self.source.count)}" if self.source.count else ""
        )
        memory = max(1, held * 3 / 2**20)  # as cells, as a table, as a file
        announce(
            f"attnx: {known or 'rows without end'}, by the first {tried} ({1 / each:,.0f} a second in a process); "
            f"memory {_peak()}, and about {memory:,.0f} MB for a shard of {shard_rows:,} rows"
        )


class _Counted:
    """The shards of a run, counted as they are read."""

    def __init__(self, place: Place, waiting: Iterator[Shard], there: Mapping[int, Part], begun: Manifest) -> None:
        self.place, self.waiting, self.there, self.begun = place, waiting, there, begun
        self.shards = self.rows = 0

    def missing(self, skipped: Callable[[int], Any]) -> Iterator[Shard]:
        """Those whose part is not there, or not whole; of the others `skipped` is told the rows."""
        for shard in self.waiting:
            self.shards += 1
            self.rows += len(shard.rows)
            part = self.there.get(shard.number)
            if part is not None:
                check_part(self.place, part, shard)
                if part.rows > len(shard.rows) or not intact(self.place, part):
                    self.place.remove(part.name)
                elif part.rows == len(shard.rows):
                    skipped(part.rows)
                    continue
            elif self.begun.complete and self.rows > (self.begun.rows or 0):
                raise InputError(
                    f"{self.place.name} holds a complete run over {self.begun.rows:,} rows, and the data has more. "
                    "Give another folder, or delete it"
                )
            yield shard


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (
        f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{max(1, rest)} s"
    )


def _peak() -> str:
    try:
        import resource
    except ImportError:  # on Windows
        return "not told by this system"
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10:,.0f} MB so far"
