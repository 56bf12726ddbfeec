"""What a run over a data set costs beside a plain batched forward, what workers bring, and whether memory stays flat.

    python -m tests.benchmarks.data_sets                          # the embedded model; others by --model and --data
    python -m tests.benchmarks.data_sets --workers 2              # Ray beside one process, by the clock
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
from typing import Any

import torch

import attnx
from attnx.data.columns import Columns
from attnx.data.source import source_of
from attnx.running.given_model import Given, given_model
from tests.faults.kills import sentences

SHARD, BATCH = 1024, 8


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
        for name, options in {"one process": {}, "workers": {"engine": "ray", "workers": asked.workers}}.items():
            start = time.perf_counter()
            explained(given, texts, **few, **options)
            print(f"{name}: {time.perf_counter() - start:.1f} s by the clock, Ray's start included", flush=True)
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
