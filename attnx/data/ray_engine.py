"""A cluster: shards go to Ray's actors, each of which loads the model once and writes its parts by itself.

Over the wire go the model (once a worker, by its name or from the object store), the rows of a shard, and three numbers
back. A worker has one shard at a time, so the driver holds no more than that. A worker that dies is started anew and
given its shard again: a part is written whole or not at all, so nothing is there twice.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from attnx.data.engine import Done, Job, Tell, work
from attnx.data.fingerprint import weights_digest
from attnx.data.question import Tick
from attnx.data.row import Shard
from attnx.errors import AttnxError, ChoiceError, InputError
from attnx.running.given_model import GivenModel, given_model


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

    def run(self, job: Job, given: GivenModel, shards: Iterator[Shard], tick: Tick, told: Tell) -> None:
        ray = _ray()
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
            self.model, self.processor = _ray().get(stored[0])
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
    told = " ".join(str(error).split())
    return AttnxError(
        f"the worker of rows {shard.rows[0].number:,} to {shard.rows[-1].number:,} died again and again (memory?); the "
        f"other shards are kept, and the same command goes on: {told:.200}"
    )


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise AttnxError("engine='ray' needs Ray: pip install 'attnx[ray]'") from error
    return ray
