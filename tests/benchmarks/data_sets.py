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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import attnx
from attnx.data.columns import Columns
from attnx.data.source import source_of
from attnx.running.given_model import Given, given_model
from tests.faults.kills import sentences

SHARD, BATCH = 1024, 8
SMALL = 32
"""Rows of a shard where workers share them: enough shards that none of them waits long for the others at the end."""


def plain(given: Given, texts: Sequence[str]) -> None:
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


def explained(given: Given, texts: Sequence[str], **options: Any) -> None:
    folder = tempfile.mkdtemp()
    try:
        attnx.explain_dataset(
            given.model, given.processor, list(texts), output=folder, progress=False, shard_rows=SHARD, **options
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

    def __str__(self) -> str:
        return f"{self.whole:.1f} s, {self.start:.1f} s of them to the first part, then {self.rate:.1f} rows a second"


def clocked(given: Given, texts: Sequence[str], **options: Any) -> Clocked:
    begun = time.time()
    with tempfile.TemporaryDirectory() as folder:
        attnx.explain_dataset(
            given.name or given.model,
            None if given.name else given.processor,
            list(texts),
            output=folder,
            progress=False,
            shard_rows=SMALL,
            **options,
        )
        ended = time.time()
        done = sorted(one.stat().st_mtime for one in Path(folder).glob("part-*"))
    workers = options.get("workers", 1)  # each finishes a part at about the same time
    return Clocked(ended - begun, done[0] - begun, SMALL * (len(done) - workers) / (done[-1] - done[workers - 1]))


def seconds(runs: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """The least processor time of each, in turn; a first round warms up."""
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
            given.model, given.processor, numbered, output=folder, methods="rollout", references=(), progress=False
        )
        shutil.rmtree(folder)
        print(round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10))
        return
    texts = (
        [one.given for one in source_of(asked.data, Columns()).rows][: asked.rows]
        if asked.data
        else list(dict.fromkeys(one for one in sentences(4 * asked.rows) if one))[: asked.rows]
    )
    few = {"methods": ("raw", "rollout"), "references": ()}
    if asked.workers:
        torch.set_num_threads(1)
        alone = clocked(given, texts, **few)
        print(f"one process on one core: {alone}", flush=True)
        several = clocked(given, texts, **few, engine="ray", workers=asked.workers)
        print(f"{asked.workers} workers with a core each: {several}")
        print(
            f"{several.rate / alone.rate:.2f} × as fast once they are at work; {alone.whole / several.whole:.2f} × "
            f"with the {several.start:.1f} s until their first parts, paid once a run"
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
