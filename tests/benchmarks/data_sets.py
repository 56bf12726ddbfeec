"""What a run over a data set costs beside a plain batched forward, what workers bring, and whether memory stays flat.

    python -m tests.benchmarks.data_sets                          # the embedded model; others by --model and --data
    python -m tests.benchmarks.data_sets --workers 2              # Ray, a core a worker, beside one process on one core
    python -m tests.benchmarks.data_sets --memory 50000           # highest resident size by rows

Costs are of the processor, so that neighbours on the machine do not count; both sides run in turn. The plain side
tokenises the same texts, sorts each shard by length and pads it in the same batches.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import torch

import attnx
from attnx.pipeline import GivenModel, given_model
from attnx.runs.engine import Engine, Job, LocalEngine, Ray, Work
from attnx.runs.explanations import ExplanationTask
from attnx.runs.sources import Columns, source_of
from tests.faults.kills import sentences

SHARD, BATCH = 1024, 8
SMALL = 32
"""Rows of a shard where workers share them: enough shards that none of them waits long for the others at the end."""


def plain(given: GivenModel, texts: Sequence[str]) -> None:
    """Tokenise, sort, pad, run: what any batched script does."""
    for start in range(0, len(texts), SHARD):
        read = given.processor(list(texts[start : start + SHARD]), truncation=True)["input_ids"]
        order = sorted(range(len(read)), key=lambda place: len(read[place]))
        for at in range(0, len(order), BATCH):
            ids = [torch.tensor(read[place]) for place in order[at : at + BATCH]]
            padded = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True)
            mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(one) for one in ids], batch_first=True)
            with torch.inference_mode():
                given.model(input_ids=padded, attention_mask=mask).logits.softmax(-1).tolist()


def explained(given: GivenModel, texts: Sequence[str], **options: Any) -> None:
    folder = tempfile.mkdtemp()
    try:
        attnx.explain_dataset(
            given.model, given.processor, list(texts), run_dir=folder, progress=False, shard_rows=SHARD, **options
        )
    finally:
        shutil.rmtree(folder)


@dataclass(frozen=True)
class Clocked:
    """By the clock, from the times at which parts were finished."""

    whole: float
    start: float
    """Until the first part: Ray, the workers, the model in each, and a shard."""
    rate: float
    """Rows a second from there to the last part."""
    processor: float
    """Seconds of a processor that a row takes where it is run: what neighbours on the machine do not change."""

    def __str__(self) -> str:
        return (
            f"{self.whole:.1f} s, {self.start:.1f} s of them to the first part, then {self.rate:.1f} rows a second; "
            f"{self.processor * 1000:.1f} ms of a processor a row"
        )


@dataclass(frozen=True)
class Timed:
    """An engine whose task writes down what each shard takes of the processor that runs it."""

    engine: Engine
    file: str

    def run(self, job: Job, given: GivenModel, work: Iterator[Work], on_row: Any, on_done: Any) -> None:
        task = TimedTask(job.task.options, self.file)
        self.engine.run(replace(job, task=task), given, work, on_row, on_done)


@dataclass(frozen=True)
class TimedTask(ExplanationTask):
    file: str = ""

    def cells(self, model: Any, processor: Any, things: Sequence[Any], tick: Any, progress: bool) -> Any:
        start = time.process_time()
        rows = super().cells(model, processor, things, tick, progress)
        with Path(self.file).open("a") as file:
            file.write(f"{(time.process_time() - start) / len(things)}\n")
        return rows


def clocked(given: GivenModel, texts: Sequence[str], engine: Engine, workers: int, **options: Any) -> Clocked:
    begun = time.time()
    with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile("r") as times:
        attnx.explain_dataset(
            given.name or given.model,
            None if given.name else given.processor,
            list(texts),
            run_dir=folder,
            progress=False,
            shard_rows=SMALL,
            engine=Timed(engine, times.name),
            **options,
        )
        ended = time.time()
        done = sorted(one.stat().st_mtime for one in Path(folder).glob("part-*"))
        each = median(map(float, times.read().split()))
    rate = SMALL * (len(done) - workers) / (done[-1] - done[workers - 1])  # each finishes its first at about one time
    return Clocked(ended - begun, done[0] - begun, rate, each)


def seconds(runs: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """The least processor time of each, in turn; a first round warms up.

    Of one thread: others spin while Python works, and would be counted.
    """
    torch.set_num_threads(1)
    best = dict.fromkeys(runs, float("inf"))
    for turn in range(rounds + 1):
        for name, run in runs.items():
            start = time.process_time()
            run()
            if turn:
                best[name] = min(best[name], time.process_time() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--data")
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--memory", type=int)
    parser.add_argument("--resident", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.memory:
        for rows in (asked.memory // 25, asked.memory // 5, asked.memory):
            command = [sys.executable, "-m", "tests.benchmarks.data_sets", "--resident", str(rows)]
            print(f"{rows:,} rows: {subprocess.check_output(command, text=True).strip()} MB", flush=True)
        return
    given = given_model(asked.model) if asked.model else given_model(*attnx.load_demo())
    if asked.resident:
        numbered = (f"the key {text}" for text in sentences(asked.resident))
        folder = tempfile.mkdtemp()
        attnx.explain_dataset(
            given.model, given.processor, numbered, run_dir=folder, methods="rollout", references=(), progress=False
        )
        shutil.rmtree(folder)
        print(round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10))
        return
    texts = (
        [row.input for row in source_of(asked.data, Columns()).rows][: asked.rows]
        if asked.data
        else list(dict.fromkeys(one for one in sentences(4 * asked.rows) if one))[: asked.rows]
    )
    few = {"methods": ("raw", "rollout"), "references": ()}
    if asked.workers:
        torch.set_num_threads(1)
        alone = clocked(given, texts, LocalEngine(), 1, **few)
        print(f"one process on one core: {alone}", flush=True)
        several = clocked(given, texts, Ray(workers=asked.workers), asked.workers, **few)
        print(f"{asked.workers} workers with a core each: {several}")
        print(
            f"{several.rate / alone.rate:.2f} × as fast once they are at work; {alone.whole / several.whole:.2f} × "
            f"with the {several.start:.1f} s until their first parts, paid once a run; by processor time "
            f"{asked.workers * alone.processor / several.processor:.2f} × on as many free cores"
        )
        return
    found = seconds(
        {
            "a plain batched forward": lambda: plain(given, texts),
            "raw and rollout": lambda: explained(given, texts, **few),
            "all defaults": lambda: explained(given, texts),
        },
        asked.rounds,
    )
    least = found["a plain batched forward"]
    for name, cost in found.items():
        print(
            f"{name}: {cost / len(texts) * 1000:.2f} ms a row, {cost / least:.2f} ×, {len(texts) / cost:,.0f} a second"
        )


if __name__ == "__main__":
    main()
