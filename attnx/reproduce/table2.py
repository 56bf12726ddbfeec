"""Table 2: Spearman's correlation of raw attention, rollout and flow with input gradients, same model and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

from torch import nn

from attnx.methods.registry import PAPER_METHODS
from attnx.reproduce.correlations import Correlating, Sample, protocol_gradients, tabulated
from attnx.reproduce.protocols import PROTOCOLS
from attnx.reproduce.sentences import Sentences
from attnx.results.table import Protocol, Published, Table

PUBLISHED_TABLE: Published = {
    "raw": ((0.53, 0.33), (0.16, 0.38), (-0.06, 0.42), (0.00, 0.47), (0.24, 0.40), (0.46, 0.35)),
    "rollout": ((0.22, 0.31), (0.27, 0.32), (0.39, 0.32), (0.47, 0.32), (0.53, 0.32), (0.54, 0.31)),
    "flow": ((0.22, 0.31), (0.31, 0.34), (0.54, 0.32), (0.61, 0.28), (0.60, 0.28), (0.61, 0.28)),
}


def table2(
    model: nn.Module,
    tokenizer: Any,
    sentences: Sentences,
    *,
    protocols: Sequence[Protocol] = tuple(PROTOCOLS.values()),
    methods: Sequence[str] = PAPER_METHODS,
    seed: int = 0,
    progress: bool = False,
    output: str | PathLike[str] | None = None,
    **options: Any,
) -> Table:
    """Measure the table on the sentences under each protocol. The seed is the bootstrap's.

    With a folder as `output` the work is kept there, and the same call goes on; `options` are then those of
    `explain_dataset`: `shard_rows`, `engine`, `workers`, `num_gpus`.
    """
    asking = Correlating(
        "Table 2",
        "input gradients",
        PUBLISHED_TABLE,
        protocol_gradients,
        tuple(protocols),
        tuple(methods),
        sentences.source,
        seed,
    )
    things = Sample.of_each(sentences)
    table: Table = tabulated(asking, model, tokenizer, things, output, options, progress=progress)
    return table
