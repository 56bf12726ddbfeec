"""What `flow.py` and `long_inputs.py` call, beside the code before: two processes in turn, processor time.

    git worktree add ../before 59b4cfb
    python -m tests.benchmarks.beside --before ../before            # everything, some minutes and 2 GB
    python -m tests.benchmarks.beside --before ../before --only flow

Each call is made once in each process before anything is counted; the ratio is of the least processor times.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
TREE = HERE.parents[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, help="a checkout of the code before")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="calls with this in their name")
    asked = parser.parse_args()
    for name in CALLS:
        if asked.only in name:
            compare(name, asked.before.resolve(), asked.rounds)


def compare(name: str, before: Path, rounds: int) -> None:
    workers = {"before": child(before, name), "now": child(TREE, name)}
    taken: dict[str, list[float]] = {side: [] for side in workers}
    for number in range(rounds + 1):
        for side, worker in workers.items():
            seconds = ask(worker)
            if number:
                taken[side].append(seconds)
    for worker in workers.values():
        worker.communicate()
    then, now = min(taken["before"]), min(taken["now"])
    print(f"{name:52} before {then:8.3f} s   now {now:8.3f} s   {now / then:5.2f} ×", flush=True)


def child(tree: Path, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(HERE), "--child", name],
        env={**os.environ, "PYTHONPATH": str(tree)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def ask(worker: subprocess.Popen[str]) -> float:
    """Processor seconds of one more call."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    print("again", file=worker.stdin, flush=True)
    return float(worker.stdout.readline())


def answer(name: str) -> None:
    """Make the call for each line that comes in, and say what it took."""
    import torch

    torch.set_num_threads(1)
    call = CALLS[name]()
    for _ in sys.stdin:
        start = time.process_time()
        call()
        print(time.process_time() - start, flush=True)


def flow(attention: Any, times: int = 1, **options: Any) -> Callable[[], None]:
    import attnx

    def call() -> None:
        for _ in range(times):
            attnx.flow(attention, threads=1, **options)

    return call


def real(length: int) -> Any:
    from tests.benchmarks.flow import real_attention

    return real_attention(length)


def random(length: int) -> Any:
    from tests.benchmarks.flow import random_attention

    return random_attention(length)


def causal(length: int) -> Any:
    from tests.benchmarks.long_inputs import causal_attention

    return causal_attention(length)


def long_row(length: int) -> Callable[[], Any]:
    from tests.benchmarks.long_inputs import work

    return work(length)["row"]


CALLS: dict[str, Callable[[], Callable[[], Any]]] = {
    "flow: final CLS row, real BERT, n = 32": lambda: flow(real(32), 50, layer=6, position=0),
    "flow: final layer, all pairs, random BERT, n = 128": lambda: flow(random(128), layer=12),
    "flow: final CLS row, random BERT, n = 512": lambda: flow(random(512), layer=12, position=0),
    "flow: CLS at every layer, real BERT, n = 8": lambda: flow(real(8), 100, position=0),
    "flow: CLS at every layer, real BERT, n = 128": lambda: flow(real(128), 3, position=0),
    "flow: CLS at every layer, real BERT, n = 256": lambda: flow(real(256), position=0),
    "long_inputs: row of rollout, n = 2048": lambda: long_row(2048),
    "long_inputs: row of rollout, n = 4096": lambda: long_row(4096),
    "long_inputs: flow, last position, causal, n = 256": lambda: flow(causal(256), position=-1, limit=None),
    "long_inputs: flow, last position, causal, n = 512": lambda: flow(causal(512), position=-1, limit=None),
}

if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        sys.path = [one for one in sys.path if one != str(HERE.parent)]  # `flow.py` and others stand there
        import attnx  # noqa: F401 - that of the tree; what is called is of this one

        sys.path.insert(0, str(TREE))
        answer(sys.argv[2])
    else:
        main()
