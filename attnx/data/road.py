"""The one way over data: begin a run or find it begun, skip what is there, have the rest done, and say so.

A run that was stopped or killed goes on where it was by the same call: a part that stands under its name is done, and
nothing else is. Shards that were not finished are done again, one for each worker at most.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from attnx.data import manifest as manifests
from attnx.data.answered import TRIED
from attnx.data.engine import Done, Engine, Job, threads
from attnx.data.fingerprint import fingerprint
from attnx.data.lock import alone
from attnx.data.manifest import Manifest, Part, check_part
from attnx.data.place import Place
from attnx.data.question import Question
from attnx.data.row import DataRow, Shard, shards
from attnx.data.source import Source
from attnx.errors import InputError
from attnx.running.batches import announce, bar
from attnx.running.given_model import GivenModel


@dataclass(frozen=True, eq=False)
class Travel:
    """What is asked, of what, where to, by whom."""

    question: Question
    given: GivenModel
    source: Source
    place: Place
    engine: Engine
    shard_rows: int = 1024
    progress: bool = True

    def run(self) -> Manifest:
        """Go on until every row is done; the manifest then says so."""
        if self.shard_rows < 1:
            raise InputError(f"shard_rows must be at least 1, found {self.shard_rows}")
        manifests.read(self.place)  # a folder of something else is found out before anything is written
        self.place.make()
        with alone(self.place):
            waiting = shards(self.source.rows, self.shard_rows)
            first = next(waiting)
            begun = self._begun(first)
            manifests.tidy(self.place)
            there = manifests.parts(self.place)
            job = Job(self.question, self.place, begun.layout, begun.threads, begun.fingerprint["model"])
            seen = self._go(job, _chained(first, waiting), there)
            finished = manifests.parts(self.place)
            self._check_end(finished, seen)
            done = manifests.completed(begun, finished)
            manifests.write(self.place, done)
        return done

    def _begun(self, first: Shard) -> Manifest:
        """The manifest of this run, written now or before."""
        print_ = fingerprint(self.given.model, self.given.processor, self.question.settings())
        before = manifests.read(self.place)
        now = Manifest(
            self.question.name,
            self.shard_rows,
            print_,
            self.source.name,
            self.source.count,
            threads=torch.get_num_threads() if before is None else before.threads,
        )
        if before is not None:
            manifests.check_same(self.place, before, now)
            return replace(now, layout=before.layout)
        begun = replace(now, layout=self.question.begin(self.given.model, self.given.processor, first.rows))
        manifests.write(self.place, begun)
        if self.progress:
            self._say_estimate(first.rows[:TRIED], begun)
        return begun

    def _go(self, job: Job, waiting: Iterator[Shard], there: dict[int, Part]) -> int:
        """Have all missing shards done; how many shards there are."""
        counted = _Counted(self.place, waiting, there)
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
        return counted.seen

    def _check_end(self, finished: dict[int, Part], seen: int) -> None:
        beyond = [number for number in finished if number >= seen]
        if beyond:
            rows = sum(one.rows for one in finished.values())
            raise InputError(
                f"{self.place.name} holds a run over more data: {rows:,} rows in {len(finished):,} shards, there are "
                f"{seen:,} now. Give another folder, or delete it"
            )

    def _say_estimate(self, rows: Sequence[DataRow], begun: Manifest) -> None:
        """From the first rows, which were run once already, so that nothing is loaded or compiled any more."""
        start = time.perf_counter()
        with threads(begun.threads):
            answer = self.question.part(self.given.model, self.given.processor, rows, begun.layout, lambda: None)
        each = (time.perf_counter() - start) / len(rows)
        held = answer.held / len(rows) * self.shard_rows * 3  # as cells, as a table, as a file
        known = (
            f"{self.source.count:,} rows in about {_duration(each * self.source.count)}" if self.source.count else ""
        )
        announce(
            f"attnx: {known or 'rows without end'}, by the first {len(rows)} ({1 / each:,.0f} a second in a process); "
            f"memory {_peak()}, and about {max(1, held / 2**20):,.0f} MB for a shard of {self.shard_rows:,} rows"
        )


class _Counted:
    """The shards of a run, counted as they are read."""

    def __init__(self, place: Place, waiting: Iterator[Shard], there: Mapping[int, Part]) -> None:
        self.place, self.waiting, self.there = place, waiting, there
        self.seen = 0

    def missing(self, skipped: Callable[[int], Any]) -> Iterator[Shard]:
        """Those whose part is not there; of the others `skipped` is told the rows."""
        for shard in self.waiting:
            self.seen += 1
            if shard.number in self.there:
                check_part(self.place, self.there[shard.number], shard)
                skipped(len(shard.rows))
            else:
                yield shard


def _chained(first: Shard, rest: Iterator[Shard]) -> Iterator[Shard]:
    yield first
    yield from rest


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
