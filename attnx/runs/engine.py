"""The one way over data: begin a run or find it begun, skip what is there, have the rest done, and say so.

A run that was stopped or killed goes on where it was by the same call: a part that stands under its name, with the
content that the name says, is done, and nothing else is. Shards that were not finished are done again, one for each
worker at most. How many rows a shard has is decided once, when a run begins, and stands in the manifest: by the time
that the first rows take, so that a kill costs half a minute of work.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from math import inf, log2
from typing import Any, Protocol, TypeAlias

import torch

from attnx.errors import AttnxError, ChoiceError, InputError, whole_number
from attnx.pipeline import GivenModel, given_model
from attnx.progress import announce, progress_bar
from attnx.registry import unknown
from attnx.runs import folder as manifests
from attnx.runs.folder import Manifest, Part, Place, alone, check_part, fingerprint, part_name, weights_digest
from attnx.runs.question import TRIED, NoAnswerError, Question, RowCallback
from attnx.runs.sources import MOST_ROWS, DataRow, Shard, Source, shards
from attnx.runs.table import intact


@dataclass(frozen=True)
class Job:
    """What every worker must know, besides the model."""

    question: Question
    place: Place
    layout: Mapping[str, Any]
    threads: int
    weights: str
    """The hash of the model's weights, for workers that load it by its name."""


@dataclass(frozen=True)
class Done:
    """A shard whose part is written, as far as there was memory for its rows."""

    number: int
    rows: int
    failed: int


Tell: TypeAlias = Callable[[Done], None]


class Engine(Protocol):
    """Runs shards in any order, and tells of each when it is done. What it holds meanwhile ends with the call."""

    def run(self, job: Job, given: GivenModel, shards: Iterator[Shard], tick: RowCallback, told: Tell) -> None: ...


def work(job: Job, model: Any, processor: Any, shard: Shard, tick: RowCallback = lambda: None) -> Done:
    """One shard, from its rows to its part in the folder."""
    with threads(job.threads):
        answer = job.question.part(model, processor, shard.rows, job.layout, tick)
    if answer.rows:
        job.place.write(part_name(shard, answer.rows, answer.content), answer.content)
    return Done(shard.number, len(shard.rows), answer.failed)


class LocalEngine:
    """Here, one shard after the other."""

    def run(self, job: Job, given: GivenModel, shards: Iterator[Shard], tick: RowCallback, told: Tell) -> None:
        for shard in shards:
            told(work(job, given.model, given.processor, shard, tick))


@contextmanager
def threads(count: int) -> Iterator[None]:
    """So many threads of torch: the last digit of a sum depends on how it is divided among them."""
    before = torch.get_num_threads()
    if before == count:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def engine_of(name: Any, workers: int | None = None, num_gpus: float = 0) -> Engine:
    """By name, by the address of a cluster, or an engine of one's own."""
    workers = None if workers is None else whole_number("workers", workers)
    if name is not None and not isinstance(name, str):
        if not callable(getattr(name, "run", None)):
            raise ChoiceError(f"engine is 'ray', the address of a cluster, or an object with run(…); found {name!r}")
        made: Engine = name
        return made
    if name is not None and name.startswith("ray://"):
        return _ray(name, workers, num_gpus)
    if name not in _ENGINES:
        raise ChoiceError(
            unknown("engine", name, [one for one in _ENGINES if one]) + "; or an address, ray://head:10001"
        )
    return _ENGINES[name](None, workers, num_gpus)


def _here(address: str | None, workers: int | None, num_gpus: float) -> Engine:
    if workers not in (None, 1):
        raise ChoiceError(f"workers={workers} asked, but one process has one; engine='ray' has more")
    return LocalEngine()


def _ray(address: str | None, workers: int | None, num_gpus: float) -> Engine:
    # only for those who have a cluster

    return Ray(address, workers=workers, num_gpus=num_gpus)


_ENGINES: Mapping[str | None, Callable[[str | None, int | None, float], Engine]] = {
    None: _here,
    "process": _here,
    "ray": _ray,
}


@dataclass(frozen=True)
class Ray:
    """Workers of a cluster, or of this machine where there is no address."""

    address: str | None = None
    workers: int | None = None
    """None for as many as there is room for."""
    num_gpus: float = 0
    """Of each worker; its model goes there."""
    retries: int = 3
    """How often a shard is begun again whose worker died."""

    def run(self, job: Job, given: GivenModel, shards: Iterator[Shard], tick: RowCallback, told: Tell) -> None:
        ray = _import_ray()
        with self._connected(ray, job):
            model = None if given.name is not None else ray.put((given.model, given.processor))
            actor = ray.remote(_Worker).options(
                num_cpus=job.threads, num_gpus=self.num_gpus, max_restarts=-1, max_task_retries=self.retries
            )
            pool = [
                actor.remote(job, given.name, [model], bool(self.num_gpus))
                for _ in range(self._count(ray, job.threads))
            ]
            try:
                for done in _all_done(ray, pool, shards):
                    told(done)
            finally:  # also after an error: nobody writes to the folder when the call has ended
                for worker in pool:
                    ray.kill(worker)

    @contextmanager
    def _connected(self, ray: Any, job: Job) -> Iterator[None]:
        """To what is running, or to what is started for this run and ends with it."""
        if ray.is_initialized():
            yield
            return
        here = self.address is None and "RAY_ADDRESS" not in os.environ
        room = {"num_cpus": max(os.cpu_count() or 1, (self.workers or 1) * job.threads)} if here else {}
        try:
            ray.init(address=self.address, include_dashboard=False if here else None, log_to_driver=False,
                     logging_level="ERROR", **room)  # fmt: skip
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise AttnxError(f"no cluster of Ray can be reached at {self.address}: {error!s:.150}") from error
        try:
            yield
        finally:
            ray.shutdown()

    def _count(self, ray: Any, threads: int) -> int:
        there = ray.cluster_resources()
        room = int(there.get("GPU", 0) // self.num_gpus) if self.num_gpus else int(there.get("CPU", 1) // threads)
        if self.workers is not None and self.workers < 1:
            raise ChoiceError(f"workers must be at least 1, found {self.workers}")
        if room < (self.workers or 1):
            noun = f"num_gpus={self.num_gpus:g}" if self.num_gpus else f"{threads} threads"
            raise InputError(
                f"the cluster has room for {room} workers of {noun}, {self.workers or 1} asked: it has "
                f"{there.get('CPU', 0):g} CPUs and {there.get('GPU', 0):g} GPUs"
            )
        return self.workers or room


class _Worker:
    """In a process of its own: the model, loaded once."""

    def __init__(self, job: Job, name: str | None, stored: list[Any], on_gpu: bool) -> None:
        self.job = job
        if name is None:
            self.model, self.processor = _import_ray().get(stored[0])
        else:
            loaded = given_model(name)
            self.model, self.processor = loaded.model, loaded.processor
            if weights_digest(self.model) != job.weights:
                raise InputError(f"{name!r} has other weights on a worker than where the run was begun")
        if on_gpu:
            self.model = self.model.to("cuda")

    def do(self, shard: Shard) -> Done:
        return work(self.job, self.model, self.processor, shard)


def _all_done(ray: Any, pool: list[Any], shards: Iterator[Shard]) -> Iterator[Done]:
    """A shard for each that is free; the next is read when one is done."""
    busy: dict[Any, tuple[Any, Shard]] = {}

    def give(worker: Any) -> None:
        shard = next(shards, None)
        if shard is not None:
            busy[worker.do.remote(shard)] = (worker, shard)

    for worker in pool:
        give(worker)
    while busy:
        (ready,), _ = ray.wait(list(busy), num_returns=1)
        worker, shard = busy.pop(ready)
        try:
            done = ray.get(ready)
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, AttnxError):
                raise error.cause from None
            raise
        except ray.exceptions.RayActorError as error:
            raise _lost(shard, error) from error
        yield done
        give(worker)


def _lost(shard: Shard, error: Exception) -> AttnxError:
    name = " ".join(str(error).split())
    return AttnxError(
        f"the worker of rows {shard.rows[0].number:,} to {shard.rows[-1].number:,} died again and again (memory?); the "
        f"other shards are kept, and the same command goes on: {name:.200}"
    )


def _import_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise AttnxError("engine='ray' needs Ray: pip install 'attnx[ray]'") from error
    return ray


SECONDS = 30.0
"""Of work in a shard, where nobody chose its size: measured on a few rows, so it may be twice as much."""
SHORT = "memory was short for some rows; all others are kept, and the same call runs these again"


@dataclass(frozen=True, eq=False)
class Runner:
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
            left = counted.rows - sum(part.rows for part in finished.values())
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
        with progress_bar(self.question.name, self.source.count, self.progress, unit=" rows") as shown:
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
            rows = sum(part.rows for part in finished.values())
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
