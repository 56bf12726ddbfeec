"""What methods on other edges than attention cost beside a plain run: 128 tokens, 12 layers of 768.

    python -m tests.benchmarks.weightings

Each is asked of `explain` as a user would, for one position and all layers. Times are the best of some rounds in turn,
by the clock and by the processor's time.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import torch

from attnx.errors import AttnxError
from attnx.methods import METHODS
from attnx.pipeline import Request, Settings, explain_prepared
from tests.benchmarks.lrp import bert, case, llama, plain, report, seconds

LENGTH = 128


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    print(f"{torch.get_num_threads()} threads, {LENGTH} tokens, 12 layers of 768")
    ids = torch.randint(5, 30_000, (LENGTH,), generator=torch.Generator().manual_seed(0))
    inputs = {"input_ids": ids[None], "attention_mask": torch.ones(1, LENGTH, dtype=torch.long)}
    for name, model in (("Llama", llama(LENGTH)), ("BERT, two classes", bert())):
        runs = {"a plain run": partial(plain, model, inputs)}
        runs |= {one: partial(explained, model, ids, one) for one in METHODS.names() if affordable(model, ids, one)}
        report(name, seconds(runs, asked.rounds))


def affordable(model: Any, ids: torch.Tensor, method: str) -> bool:
    """Not what searches, what takes a run for each position, or what this model refuses."""
    row = METHODS[method]
    if row.seconds is not None or row.forwards(LENGTH) > 50:
        return False
    try:
        explained(model, ids, method)
    except AttnxError as error:
        print(f"  {method}: {error}")
        return False
    return True


def explained(model: Any, ids: torch.Tensor, method: str) -> Any:
    """As `explain` does it, without a tokenizer: the answer is token or class 1."""
    request = Request(case(ids).prepared, len(ids) - 1, 1)
    return next(explain_prepared(model, Words(), [request], Settings.of(method)))


class Words:
    """As much of a tokenizer as an answer needs to be named."""

    pad_token_id = 0

    def decode(self, ids: list[int]) -> str:
        return str(ids[0])


if __name__ == "__main__":
    main()
