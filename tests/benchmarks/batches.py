"""What `explain` of many texts costs beside a plain batched forward of the same texts.

    python -m tests.benchmarks.batches                # the embedded model, and DistilBERT where ATTNX_ASSETS has it
    python -m tests.benchmarks.batches --texts 200 --model DIRECTORY

Both sides tokenise and sort by length, and the plain one runs the batches that `explain` runs by default, so that the
ratio is what explaining adds. Costs are of the processor, of one thread, in turn, the least of some rounds.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

import attnx
from attnx.adapters import read_texts
from attnx.hooks import padding_id
from attnx.hooks.batching import grouped
from attnx.pipeline import load
from tests.benchmarks.data_sets import seconds
from tests.faults.kills import sentences

ASKED: dict[str, dict[str, Any]] = {
    "raw and rollout": {"methods": ("raw", "rollout")},
    "with flow": {"methods": ("raw", "rollout", "flow")},
    "raw and rollout, eight at once": {"methods": ("raw", "rollout"), "batch_size": 8},
    "all defaults": {},
}


def plain(model: Any, tokenizer: Any, texts: Sequence[str]) -> None:
    """Tokenise, sort, pad, run: what any batched script does."""
    read = [torch.tensor(one) for one in tokenizer(list(texts), truncation=True)["input_ids"]]
    for rows in grouped([len(one) for one in read], [()] * len(read)):
        batch = [read[row] for row in rows]
        ids = torch.nn.utils.rnn.pad_sequence(batch, batch_first=True, padding_value=padding_id(model, tokenizer) or 0)
        mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(one) for one in batch], batch_first=True)
        with torch.inference_mode():
            model(input_ids=ids, attention_mask=mask).logits.softmax(-1).tolist()


def measure(name: str, model: Any, tokenizer: Any, texts: Sequence[str], rounds: int) -> None:
    runs: dict[str, Any] = {"a plain batched forward": partial(plain, model, tokenizer, texts)}
    runs |= {
        asked: partial(attnx.explain, model, tokenizer, list(texts), **options) for asked, options in ASKED.items()
    }
    found = seconds(runs, rounds)
    least = found["a plain batched forward"]
    print(f"{name}, {len(texts)} texts")
    for asked, cost in found.items():
        print(f"  {cost * 1000 / len(texts):7.2f} ms a text  {cost / least:5.2f} ×  {asked}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=2)
    asked = parser.parse_args()
    if asked.model:
        measure(asked.model, *load(asked.model), sentences(2 * asked.texts)[: asked.texts], asked.rounds)
        return
    ours = [one for one in dict.fromkeys(sentences(4 * asked.texts)) if one][: asked.texts]
    measure("the embedded model", *attnx.load_demo(), ours, asked.rounds)
    assets = os.environ.get("ATTNX_ASSETS")
    if assets:
        read = read_texts(Path(assets) / "sst2" / "dev.tsv.gz", limit=asked.texts)
        distilbert = load(str(Path(assets) / "models" / "distilbert-sst2"))
        measure("DistilBERT on SST-2", *distilbert, [one.text for one in read], asked.rounds)


if __name__ == "__main__":
    main()
