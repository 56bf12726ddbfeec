"""Table 1: Spearman's correlation of raw attention, rollout and flow with blank-out, on the verb-number task."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np
from torch import nn

from attnx.inputs.adapter import Prepared
from attnx.methods.registry import PAPER_METHODS
from attnx.references.blankout import PAPER, blankout
from attnx.references.case import cases
from attnx.reproduce.correlations import Array, Correlating, Sample, tabulated
from attnx.reproduce.protocols import PROTOCOLS, positions
from attnx.reproduce.sentences import Sentences
from attnx.results.table import Protocol, Published, Table

PUBLISHED_TABLE: Published = {
    "raw": ((0.69, 0.27), (0.10, 0.43), (-0.11, 0.49), (-0.09, 0.52), (0.20, 0.45), (0.29, 0.39)),
    "rollout": ((0.32, 0.26), (0.38, 0.27), (0.51, 0.26), (0.62, 0.26), (0.70, 0.25), (0.71, 0.24)),
    "flow": ((0.32, 0.26), (0.44, 0.29), (0.70, 0.25), (0.70, 0.22), (0.71, 0.22), (0.70, 0.22)),
}


def table1(
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
        "Table 1",
        "blank-out",
        PUBLISHED_TABLE,
        blanked_scores,
        tuple(protocols),
        tuple(methods),
        sentences.source,
        seed,
    )
    things = Sample.of_each(sentences)
    table: Table = tabulated(asking, model, tokenizer, things, output, options, progress=progress)
    return table


def blanked_scores(
    model: nn.Module,
    tokenizer: Any,
    prepared: Sequence[Prepared],
    protocols: Sequence[Protocol],
    *,
    progress: bool = False,
) -> dict[Protocol, list[Array]]:
    """Under each protocol, the scores of each sentence; those of positions that it does not blank are 0."""
    blanked = {protocol: [positions(one, protocol.blanked) for one in prepared] for protocol in protocols}
    # A position's score is the same in every protocol that blanks it, so each is run once.
    union = [sorted(set().union(*several)) for several in zip(*blanked.values(), strict=True)]
    asked = cases(model, tokenizer, prepared)
    scores = [one.scores for one in blankout(model, tokenizer, asked, positions=union, progress=progress, **PAPER)]
    return {protocol: list(map(_only, scores, chosen)) for protocol, chosen in blanked.items()}


def _only(scores: Array, chosen: list[int]) -> Array:
    """The scores of the chosen positions; 0 elsewhere."""
    kept = np.zeros_like(scores)
    kept[chosen] = scores[chosen]
    return kept
