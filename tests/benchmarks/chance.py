"""How well random orders tell the chance of a text: drawn one by one, and in pairs of an order and its reverse.

    ATTNX_ASSETS=… python -m tests.benchmarks.chance

Forty orders of each of 12 SST-2 sentences with the shared DistilBERT; standard errors of a text's mean, root mean
square over the texts, for comprehensiveness, sufficiency, deletion and insertion.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

import attnx
from attnx.evaluation import METRICS, RANDOM
from attnx.evaluation import faithfulness as room
from attnx.pipeline import load
from tests.benchmarks.recommend import sentences


def main() -> None:
    assets = Path(os.environ["ATTNX_ASSETS"])
    model, tokenizer = load(str(assets / "models" / "distilbert-sst2"))
    texts = [one for one in sentences(assets) if len(one.split()) <= 12][:12]
    remove, kept = room.remove, []

    def keeping(call, explanations, removal, **options):
        kept.append((removal, remove(call, explanations, removal, **options)))
        return kept[-1][1]

    room.remove = keeping
    attnx.faithfulness(model, tokenizer, texts, methods="raw", references=(), random=40, progress=False)
    ((removal, (all_orders, scores)),) = kept
    found = np.array(
        [
            [removal.metrics(number, order, scores) for order in orders[RANDOM]]
            for number, orders in enumerate(all_orders)
        ]
    )  # text × order × metric
    one_by_one, pairs = found[:, ::2], (found[:, ::2] + found[:, 1::2]) / 2
    print("standard error of a text's chance:", ", ".join(METRICS))
    for name, drawn, count in (("10 one by one", one_by_one, 10), ("2 pairs", pairs, 2), ("3 pairs", pairs, 3)):
        error = np.sqrt(drawn.var(1, ddof=1).mean(0) / count)
        print(f"{name:14}", " ".join(f"{one:.3f}" for one in error))


if __name__ == "__main__":
    main()
