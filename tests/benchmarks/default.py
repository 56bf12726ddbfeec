"""What `explain` costs beside a plain run where nobody chooses: raw, rollout, flow and the value path.

    python -m tests.benchmarks.default                # 16, 128 and 512 tokens, 12 layers of 768
    python -m tests.benchmarks.default --length 128   # one of them

Times are the best of some rounds in turn, by the clock and by the processor's time. Memory is the highest resident size
of a process that does only that, above one that runs the model alone.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

import attnx
from tests.benchmarks.capture import NoTokenizer, resident
from tests.benchmarks.lrp import bert, llama, plain, report, seconds

LENGTHS = (16, 128, 512)
MODELS = {"Llama": partial(llama, max(LENGTHS)), "BERT, two classes": bert}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, action="append")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", nargs=2, metavar=("MODEL", "RUN"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.memory:
        print(memory(*asked.memory, asked.length[0]))
        return
    print(f"{torch.get_num_threads()} threads, 12 layers of 768")
    for name, made in MODELS.items():
        model = made()
        for length in asked.length or LENGTHS:
            report(f"{name}, {length} tokens", seconds(runs(model, length), asked.rounds))
            grown = {one: in_a_process(name, one, length) for one in runs(model, length)}
            plainly, *others = grown
            for one in others:
                print(f"  {one}: {(grown[one] - grown[plainly]) / 2**20:.0f} MB above a plain run", flush=True)


def runs(model: Any, length: int) -> dict[str, Callable[[], Any]]:
    ids = torch.randint(5, 30_000, (1, length), generator=torch.Generator().manual_seed(0))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    return {
        "a plain run": lambda: plain(model, inputs),
        "raw and rollout": lambda: attnx.explain(model, NoTokenizer(), inputs, methods=("raw", "rollout")),
        "explain": lambda: attnx.explain(model, NoTokenizer(), inputs),
    }


def in_a_process(model: str, run: str, length: int) -> int:
    command = [sys.executable, "-m", "tests.benchmarks.default", "--memory", model, run, "--length", str(length)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def memory(model: str, run: str, length: int) -> int:
    """Bytes by which this process grows at most in the second of two such runs."""
    asked = runs(MODELS[model](), length)[run]
    asked()
    before = resident()
    asked()
    return resident("VmHWM") - before


if __name__ == "__main__":
    main()
