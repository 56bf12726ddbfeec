"""Who runs the shards of a run: this process, or the workers of a Ray cluster."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import torch

from attnx.errors import AttnxError, ChoiceError, InputError, whole_number
from attnx.pipeline import GivenModel, Refused, given_model
from attnx.registry import unknown
from attnx.runs.folder import RunDir, part_name, weights_digest
from attnx.runs.sources import Shard
from attnx.runs.task import DatasetTask, Layout, PartContent, RowCallback, compute, layout_of, part_content


@dataclass(frozen=True)
class Job:
    """What every worker must know, besides the model."""

    task: DatasetTask[Any]
    run_dir: RunDir
    threads: int
    weights: str
    """The hash of the model's weights, for workers that load it by its name."""


@dataclass(frozen=True)
class Work:
    """A shard to run. Where no layout is known yet, its part is handed back and not written."""

    shard: Shard
    layout: Layout | None
    alone: bool = False
    """Whether it must be done before the next is asked for."""


@dataclass(frozen=True)
class Done:
    """What came of a shard."""

    number: int
    rows: int
    seconds: float
    part: PartContent | None = None
    layout: Layout | None = None
    reason: str = ""
    """Why no row has cells, where there is no layout."""


OnDone: TypeAlias = Callable[[Done], None]


class Engine(Protocol):
    """Runs work in any order, and reports each when it is done; what it holds meanwhile ends with the call."""

    def run(self, job: Job, loaded: GivenModel, work: Iterator[Work], on_row: RowCallback, on_done: OnDone) -> None: ...


def run_shard(job: Job, model: Any, processor: Any, work: Work, on_row: RowCallback = lambda: None) -> Done:
    """From the rows of a shard to its part, in the folder unless its layout is new."""
    start = time.perf_counter()
    rows = work.shard.rows
    with _threads(job.threads):
        results = compute(job.task, model, processor, rows, on_row)
    layout = work.layout or layout_of(job.task, model, results, {})
    seconds = time.perf_counter() - start
    if layout is None:
        reasons = [f"row {row}: {result.reason}" for row, result in results.items() if isinstance(result, Refused)]
        return Done(work.shard.number, len(rows), seconds, reason=reasons[0])
    part = part_content(job.task, rows, results, layout)
    if work.layout is None:
        return Done(work.shard.number, len(rows), seconds, part, layout)
    if part.rows:
        job.run_dir.write(part_name(work.shard, part.rows, part.content), part.content)
    return Done(work.shard.number, len(rows), seconds, replace(part, content=b""))


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """So many threads of torch: the last digit of a sum depends on how it is divided among them."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class LocalEngine:
    """One shard after the other, in this process."""

    def run(self, job: Job, loaded: GivenModel, work: Iterator[Work], on_row: RowCallback, on_done: OnDone) -> None:
        for item in work:
            on_done(run_shard(job, loaded.model, loaded.processor, item, on_row))


@dataclass(frozen=True)
class Ray:
    """Workers of a cluster, or of this machine where there is no address."""

    address: str | None = None
    workers: int | None = None
    """None for as many as the cluster can hold."""
    num_gpus: float = 0
    """Of each worker; its model goes there."""
    retries: int = 3
    """How often a shard is run again whose worker died."""

    def run(self, job: Job, loaded: GivenModel, work: Iterator[Work], on_row: RowCallback, on_done: OnDone) -> None:
        ray = _import_ray()
        with self._connected(ray, job):
            model = None if loaded.name is not None else ray.put((loaded.model, loaded.processor))
            actor = ray.remote(_Worker).options(
                num_cpus=job.threads, num_gpus=self.num_gpus, max_restarts=-1, max_task_retries=self.retries
            )
            pool = [
                actor.remote(job, loaded.name, [model], bool(self.num_gpus))
                for _ in range(self._count(ray, job.threads))
            ]
            try:
                _distribute(ray, pool, work, on_done)
            finally:  # also after an error: nobody writes to the folder when the call has ended
                for worker in pool:
                    ray.kill(worker)

    @contextmanager
    def _connected(self, ray: Any, job: Job) -> Iterator[None]:
        """To a cluster that is running, or to one that is started for this run and ends with it."""
        if ray.is_initialized():
            yield
            return
        local = self.address is None and "RAY_ADDRESS" not in os.environ
        size = {"num_cpus": max(os.cpu_count() or 1, (self.workers or 1) * job.threads)} if local else {}
        try:
            ray.init(address=self.address, include_dashboard=False if local else None, log_to_driver=False,
                     logging_level="ERROR", **size)  # fmt: skip
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise AttnxError(f"no cluster of Ray can be reached at {self.address}: {error!s:.150}") from error
        try:
            yield
        finally:
            ray.shutdown()

    def _count(self, ray: Any, threads: int) -> int:
        resources = ray.cluster_resources()
        cpus, gpus = resources.get("CPU", 1), resources.get("GPU", 0)
        most = int(gpus // self.num_gpus) if self.num_gpus else int(cpus // threads)
        if most < (self.workers or 1):
            needs = f"num_gpus={self.num_gpus:g}" if self.num_gpus else f"{threads} threads"
            raise InputError(
                f"{self.workers or 1} workers of {needs} were requested, but the cluster can hold {most}: it has "
                f"{cpus:g} CPUs and {gpus:g} GPUs"
            )
        return self.workers or most


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

    def run(self, work: Work) -> Done:
        return run_shard(self.job, self.model, self.processor, work)


def _distribute(ray: Any, pool: list[Any], work: Iterator[Work], on_done: OnDone) -> None:
    """A shard for each worker that is idle; the next is read when one is done."""
    busy: dict[Any, tuple[Any, Work]] = {}
    idle = list(pool)
    while True:
        while idle and (item := next(work, None)) is not None:
            worker = idle.pop(0)
            busy[worker.run.remote(item)] = (worker, item)
            if item.alone:
                break
        if not busy:
            return
        (ready,), _ = ray.wait(list(busy), num_returns=1)
        worker, item = busy.pop(ready)
        try:
            on_done(ray.get(ready))
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, AttnxError):
                raise error.cause from None
            raise
        except ray.exceptions.RayActorError as error:
            rows = item.shard.rows
            raise AttnxError(
                f"the worker of rows {rows[0].number:,} to {rows[-1].number:,} died again and again (memory?); the "
                f"other shards are kept, and the same command resumes the run: {' '.join(str(error).split()):.200}"
            ) from error
        idle.append(worker)


def _import_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise AttnxError("engine='ray' needs Ray: pip install 'attnx[ray]'") from error
    return ray


def engine_of(name: Any, workers: int | None = None, num_gpus: float = 0) -> Engine:
    """By name, by the address of a cluster, or an engine of the caller's own."""
    if workers is not None and whole_number("workers", workers) < 1:
        raise ChoiceError(f"workers must be at least 1, found {workers}")
    if name is not None and not isinstance(name, str):
        if not callable(getattr(name, "run", None)):
            raise ChoiceError(f"engine is 'ray', the address of a cluster, or an object with run(…); found {name!r}")
        engine: Engine = name
        return engine
    if name == "ray" or (name is not None and name.startswith("ray://")):
        return Ray(None if name == "ray" else name, workers, num_gpus)
    if name not in (None, "process"):
        raise ChoiceError(unknown("engine", name, ["process", "ray"]) + "; or an address, ray://head:10001")
    if workers not in (None, 1):
        raise ChoiceError(f"workers={workers} was requested, but one process has one; engine='ray' has more")
    return LocalEngine()
