"""A real shortage of memory in the middle of a run: torch's allocation on the CPU fails. Is a row lost?

    python -m tests.faults.memory                 # exits with 1 if a row was lost or stored as failed

The address space of the process is limited (RLIMIT_AS) so that long rows do not fit and short ones do. The run must
keep the short ones, store none of the long ones as failed, and not be complete. Without the limit the same call must
run them.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import BertConfig, BertForSequenceClassification

import attnx
from tests import zoo

SHORT = ["the film", "a witty film", "a dull film", "the witty film was dull", "a film was a film"]
LONG = [" ".join(["the film was witty and dull"] * count) for count in (250, 240)]
ROWS = [SHORT[0], LONG[0], *SHORT[1:3], LONG[1], *SHORT[3:]]
ROOM = 400 << 20
"""Bytes beyond what the process has; the widest layer needs 600 MB for a long row, and 3 MB for a short one."""


@dataclass(frozen=True)
class Outcome:
    """Of a run under the limit, and of the same call without it."""

    rows_then: list[int]
    """Row numbers that were there while memory was short."""
    failed_then: int
    complete_then: bool
    rows_now: list[int]
    failed_now: int
    complete_now: bool

    @property
    def lost(self) -> int:
        """Rows that are missing at the end, or were ever stored as failed."""
        return len(ROWS) - len(self.rows_now) + self.failed_now + self.failed_then


def short_of_memory(folder: Path) -> Outcome:
    import resource

    torch.manual_seed(0)
    tokenizer = zoo.wordpiece_tokenizer()
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 100_000}
    config = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=2_000, **sizes)
    model = BertForSequenceClassification(config).eval()

    def explain(run_dir: Path) -> attnx.Run:
        options = {"methods": "rollout", "references": (), "shard_rows": 4, "progress": False}
        return attnx.explain_dataset(model, tokenizer, ROWS, run_dir=run_dir, **options)

    attnx.explain_dataset(model, tokenizer, SHORT, run_dir=folder / "first", methods="rollout", references=())
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ROOM, before[1]))
    try:
        then = explain(folder / "run")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    rows_then, failed_then, complete_then = [one["row"] for one in then.rows(["row"])], len(then.failed), then.complete
    now = explain(folder / "run")
    rows_now = [one["row"] for one in now.rows(["row"])]
    return Outcome(rows_then, failed_then, complete_then, rows_now, len(now.failed), now.complete)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        outcome = short_of_memory(Path(folder))
    print(outcome)
    print(f"{outcome.lost} of {len(ROWS)} rows lost or stored as failed")
    fell_short = len(outcome.rows_then) < len(ROWS) and not outcome.complete_then
    sys.exit(not (fell_short and outcome.lost == 0 and outcome.complete_now))


if __name__ == "__main__":
    main()
