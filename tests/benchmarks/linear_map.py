"""Linear maps of float32 by torch's two libraries on one core: GFLOP/s, and the ratio.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.linear_map

`attnx.linearize.matmul` takes oneDNN where MKL leaves half of the processor unused, and elsewhere what torch takes.
"""

from __future__ import annotations

from time import process_time

import torch
import torch.nn.functional as F

from attnx.linearize.matmul import onednn_linear, prefers_onednn

ROUNDS = 5
SHAPES = ((2_048, 768, 768), (2_048, 768, 3_072), (2_048, 3_072, 768))
"""Rows, width in, width out: those of a DistilBERT, with a batch of variants."""


@torch.no_grad()
def main() -> None:
    print(f"{torch.get_num_threads()} threads; oneDNN is taken here: {prefers_onednn()}")
    for rows, taken, given in SHAPES:
        states, weight, bias = torch.randn(rows, taken), torch.randn(given, taken), torch.randn(given)
        best = {"MKL": float("inf"), "oneDNN": float("inf")}
        for _ in range(ROUNDS):
            for name, call in (("MKL", F.linear), ("oneDNN", onednn_linear)):
                start = process_time()
                call(states, weight, bias)
                best[name] = min(best[name], process_time() - start)
        rates = {name: 2e-9 * rows * taken * given / seconds for name, seconds in best.items()}
        told = ", ".join(f"{name} {rate:.0f} GFLOP/s" for name, rate in rates.items())
        print(f"{rows} × {taken} → {given}: {told}, {rates['oneDNN'] / rates['MKL']:.2f} ×")


if __name__ == "__main__":
    main()
