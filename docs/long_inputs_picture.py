"""The picture of docs/long-inputs.md: peak memory of a row of rollout over the length of the input, measured.

    python -m docs.long_inputs_picture 2048 4096 8192

Each point is a process of its own; see tests/benchmarks/long_inputs.py.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from tests.benchmarks.long_inputs import megabytes

LAYERS, HEADS = 12, 12


def draw(measured: dict[int, float]) -> None:
    """Length → MB above a plain forward."""
    lengths = np.array(sorted(measured))
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    every = np.geomspace(512, 16384, 50)
    axes.loglog(
        every, LAYERS * HEADS * every**2 * 4 / 2**20, color="0.55", label="all layers and heads: 4·L·H·n² bytes"
    )
    axes.loglog(every, LAYERS * every**2 * 4 / 2**20, color="0.75", linestyle="--", label="mean of heads: 4·L·n² bytes")
    axes.loglog(
        lengths, [measured[int(one)] for one in lengths], "o-", color="#c65800", label="a row of rollout, measured"
    )
    axes.set_xticks([512, 1024, 2048, 4096, 8192, 16384], ["512", "1024", "2048", "4096", "8192", "16384"])
    axes.set_xticks([], minor=True)
    axes.set_yticks([10, 100, 1000, 10000, 100000], ["10 MB", "100 MB", "1 GB", "10 GB", "100 GB"])
    axes.set_xlabel("positions")
    axes.set_ylabel("memory above a forward")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, frameon=False)
    figure.savefig(Path(__file__).parent / "images" / "long-inputs.png", dpi=110)


if __name__ == "__main__":
    draw({length: megabytes(length, "row") for length in map(int, sys.argv[1:])})
