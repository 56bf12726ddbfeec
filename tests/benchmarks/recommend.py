"""Is what `recommend` puts first on 50 sentences as good as the best on others? DistilBERT on SST-2, shared assets.

    ATTNX_ASSETS=… OMP_NUM_THREADS=2 python -m tests.benchmarks.recommend            # 50, then 200 other sentences
    ATTNX_ASSETS=… OMP_NUM_THREADS=2 python -m tests.benchmarks.recommend --others 0

The first table takes every method, and every reference of up to 50 forwards. On the other sentences stand those that
know the answer, integrated gradients among them, which costs more; what counts is whether the first is told from the
best.
"""

from __future__ import annotations

import argparse
import gzip
import os
import time
from pathlib import Path

import attnx
from attnx.pipeline import load

METHODS = ("gradient_rollout",)
REFERENCES = ("integrated_gradients", "blankout", "lrp", "attn_lrp")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=50)
    parser.add_argument("--others", type=int, default=200)
    parser.add_argument("--longest", type=int, default=1_000, help="words of a sentence")
    parser.add_argument("--save", type=Path, help="a directory for both results")
    asked = parser.parse_args()
    assets = Path(os.environ["ATTNX_ASSETS"])
    model, tokenizer = load(str(assets / "models" / "distilbert-sst2"))
    read = [one for one in sentences(assets) if len(one.split()) <= asked.longest]
    some, others = read[: asked.texts], read[asked.texts : asked.texts + asked.others]
    wall, cpu = time.perf_counter(), time.process_time()
    found = attnx.recommend(model, tokenizer, some)
    print(f"{found}\n\n{time.perf_counter() - wall:.0f} s, {time.process_time() - cpu:.0f} s of processors", flush=True)
    if asked.save:
        found.save(asked.save / "some.safetensors")
    if not others:
        return
    checked = attnx.recommend(model, tokenizer, others, methods=METHODS, references=REFERENCES, random=1)
    if asked.save:
        checked.save(asked.save / "others.safetensors")
    first, best = found.best, checked.ranking()[0]
    print(f"\n{checked}")
    if first in checked.methods:
        behind = checked.difference(best, to=first)
        told = "is significantly different from" if checked.below_best(first) else "not significantly different from"
        print(f"\n{first} {told} {best}: behind by {behind.mean:.3f} [{behind.low:.3f} {behind.high:.3f}]")


def sentences(assets: Path) -> list[str]:
    with gzip.open(assets / "sst2" / "dev.tsv.gz", "rt", encoding="utf-8") as lines:
        next(lines)
        return [line.rstrip("\n").split("\t", 1)[1] for line in lines]


if __name__ == "__main__":
    main()
