"""Blank-out in batches against the loop that its definition says, one forward pass for each position.

    python -m tests.benchmarks.blankout            # with ATTNX_ASSETS also on a wide DistilBERT

Both are timed in turn in one run on all cores, the best of five; the scores must agree to 1e-5.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import torch

import attnx
from attnx.adapters import adapter_for
from attnx.attribution import PAPER, blankout, cases
from attnx.pipeline import load

LENGTHS = (8, 16, 32, 64)
ROUNDS = 5


def main() -> None:
    print(f"blank-out, {torch.get_num_threads()} threads")
    _compare("embedded model (6 layers, 128 wide)", *attnx.load_demo(), "the key to the cabinets near the old house ")
    assets = os.environ.get("ATTNX_ASSETS")
    if assets:
        directory = Path(assets) / "models" / "distilbert-sst2"
        _compare("DistilBERT (6 layers, 768 wide)", *load(str(directory)), "an odd and witty little film that ")
    else:
        print("DistilBERT: left out, for ATTNX_ASSETS is not set")


def _compare(name: str, model, tokenizer, phrase: str) -> None:
    print(name)
    for length in LENGTHS:
        prepared = _prepared(model, tokenizer, phrase, length)
        asked = cases(model, tokenizer, [prepared])
        (baseline,) = tokenizer.convert_tokens_to_ids([blankout(model, tokenizer, asked)[0].facts["baseline"]])
        batched, looped = [], []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            (fast,) = blankout(model, tokenizer, asked, **PAPER)
            batched.append(time.perf_counter() - start)
            start = time.perf_counter()
            slow = _loop(model, baseline, prepared)
            looped.append(time.perf_counter() - start)
        difference = np.abs(fast.scores - slow).max()
        assert difference < 1e-5, difference
        print(
            f"  n = {len(prepared.positions):2d}: loop {min(looped):.3f} s, batched {min(batched):.3f} s, "
            f"{min(looped) / min(batched):.1f} × (largest difference {difference:.1e})"
        )


def _prepared(model, tokenizer, phrase: str, length: int):
    """A text of at most so many positions, made of the phrase over and over."""
    prepare = adapter_for(model).prepare
    words = (phrase * length).split()[: length - 2]  # two special tokens come to them
    while len((prepared := prepare(model, tokenizer, " ".join(words))).positions) > length:
        words.pop()
    return prepared


@torch.no_grad()
def _loop(model, baseline: int, prepared) -> np.ndarray:
    inputs = {name: tensor[None] for name, tensor in prepared.inputs.items()}
    if "token_type_ids" in inputs and model.config.model_type == "distilbert":
        del inputs["token_type_ids"]
    whole = model(**inputs).logits.softmax(-1)[0]
    target = int(whole.argmax())
    scores = np.zeros(len(prepared.positions))
    for position in prepared.positions:
        if not position.special:
            ids = inputs["input_ids"].clone()
            ids[0, position.index] = baseline
            scores[position.index] = abs(
                float(whole[target] - model(**{**inputs, "input_ids": ids}).logits.softmax(-1)[0, target])
            )
    return scores


if __name__ == "__main__":
    main()
