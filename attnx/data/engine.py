"""Who runs the shards: this process, or workers elsewhere. Each calls the same function, and writes what it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import torch

from attnx.data.manifest import part_name
from attnx.data.place import Place
from attnx.data.question import Question, Tick
from attnx.data.row import Shard
from attnx.running.given_model import GivenModel


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

    def run(self, job: Job, given: GivenModel, shards: Iterator[Shard], tick: Tick, told: Tell) -> None: ...


def work(job: Job, model: Any, processor: Any, shard: Shard, tick: Tick = lambda: None) -> Done:
    """One shard, from its rows to its part in the folder."""
    with threads(job.threads):
        answer = job.question.part(model, processor, shard.rows, job.layout, tick)
    if answer.rows:
        job.place.write(part_name(shard, answer.rows, answer.content), answer.content)
    return Done(shard.number, len(shard.rows), answer.failed)


class OneProcess:
    """Here, one shard after the other."""

    def run(self, job: Job, given: GivenModel, shards: Iterator[Shard], tick: Tick, told: Tell) -> None:
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
