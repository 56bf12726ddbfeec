"""What a maximum flow does, counted: how often it pushes and looks at an edge, and how that grows.

    python -m tests.benchmarks.flow_work                 # 64 to 512 positions, some minutes
    python -m tests.benchmarks.flow_work --lengths 32 64 128

The compiled search counts nothing, so its own functions are run as Python here, on some pairs of random attention. The
time of all pairs is that of the compiled search, of the processor, in a process of its own.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

os.environ.setdefault("NUMBA_DISABLE_JIT", "1")  # before numba is loaded

import numpy as np

from attnx.methods import flow_kernel as bitset
from attnx.methods import flow_kernel as blocking_flow
from attnx.methods import flow_kernel as kernel
from attnx.methods.flow_solver import SWEEPS, ResidualGraph, chain_cuts, dust
from tests.benchmarks.long_inputs import slope

LAYERS = 6
PAIRS = 24
COUNTED = {"pushes": (blocking_flow, "_push"), "looks": (blocking_flow, "_pick"), "sweeps": (kernel, "sweep")}
"""What is counted: calls of these functions. A look is a step of a path down or up, or that it finds none."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[64, 128, 256, 512])
    parser.add_argument("--seconds", type=int, metavar="LENGTH", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.seconds:
        print(seconds(asked.seconds))
    else:
        report(asked.lengths)


def report(lengths: Sequence[int]) -> None:
    count = counting()
    print(f"random attention, layer {LAYERS} of {LAYERS}: a pair is the mean of {PAIRS}, all pairs are timed")
    found = []
    for length in lengths:
        counts = count(length)
        sweeps, pushes, looks, cuts = (counts[name] / PAIRS for name in ("sweeps", "pushes", "looks", "cuts"))
        taken = in_a_process(length)
        found.append((length, looks * length**2, taken))
        pair = f"{sweeps:.2f} sweeps, {pushes:.0f} pushes ({pushes / length:.1f} n), {looks:.0f} looks"
        settled = f"chain cuts hold back {1 - cuts:.0%}"
        each = f"{1e9 * taken / found[-1][1]:.1f} ns a look"
        print(
            f"  n = {length:4}  {pair} ({looks / length:.1f} n), {settled}; all pairs {taken:.2f} s, {each}", flush=True
        )
    if len(found) > 1:
        ends, looks, times = ([math.log(one[part]) for one in found] for part in range(3))
        print(f"  looks of all pairs grow as n^{slope(ends, looks):.2f}, their seconds as n^{slope(ends, times):.2f}")


def counting() -> Callable[[int], Counter[str]]:
    """The search with its calls counted."""
    counts: Counter[str] = Counter()
    for module in (bitset, blocking_flow, kernel):
        module.lowest = lambda word: (int(word) & -int(word)).bit_length() - 1  # an instruction of the processor
    for name, (module, function) in COUNTED.items():
        setattr(module, function, _counted(getattr(module, function), counts, name))
    kernel._cut = _counted(kernel._cut, counts, "cuts")

    def count(length: int) -> Counter[str]:
        counts.clear()
        counts["cuts"] = 0
        search(length)
        return Counter(counts)

    return count


def _counted(function: Callable[..., Any], counts: Counter[str], name: str) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        counts[name] += 1
        return function(*args)

    return call


def search(length: int) -> None:
    """Solve pairs that lie evenly among all, and hold each against its bound."""
    edges = 0.5 * random_attention(length)[:, 0].double().numpy() + 0.5 * np.eye(length)
    capacities, rows = np.ascontiguousarray(edges[:-1]), np.ascontiguousarray(edges[-1])
    bounds = chain_cuts(capacities, rows, np.arange(length))
    graph, values = ResidualGraph.of(capacities, sweeps=SWEEPS), np.zeros_like(rows)
    heights = np.full(length, len(capacities), np.int64)
    shared = [one.reshape(-1) for one in (capacities, rows, heights, bounds, values)]
    own = [one.reshape(-1) for one in vars(graph).values()]
    for pair in np.linspace(0, length**2 - 1, PAIRS).astype(int).tolist():
        gap = kernel.solve(*shared, length, pair, pair + 1, SWEEPS, dust(capacities), *own)
        assert 0 <= gap < 1e-9, gap


def random_attention(length: int) -> Any:
    import torch

    scores = 2 * torch.randn(LAYERS, 1, length, length, generator=torch.Generator().manual_seed(0))
    return scores.softmax(-1)


def in_a_process(length: int) -> float:
    """Processor seconds of all pairs by the compiled search."""
    told = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.flow_work", "--seconds", str(length)],
        env={**os.environ, "NUMBA_DISABLE_JIT": "0"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return float(told.stdout)


def seconds(length: int) -> float:
    import attnx
    from tests.benchmarks.long_inputs import timed

    attention = random_attention(length)
    attnx.flow(attention[:3, :, :8, :8] / 2, position=-1)  # the machine code is loaded
    return timed(lambda: attnx.flow(attention, layer=LAYERS, threads=1, limit=None))[1]


if __name__ == "__main__":
    main()
