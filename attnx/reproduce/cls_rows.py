"""What each method says of each sentence: the CLS row at every layer, for many sentences in batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from attnx.adapters import Prepared, adapter_for
from attnx.adapters.batch import collate
from attnx.capture import capture_batch
from attnx.methods import METHODS
from attnx.references.batches import TOKENS_AT_ONCE, bar, batches, bounded
from attnx.references.class_score import class_logits

Array = np.ndarray[Any, np.dtype[np.float64]]

TABLE_METHODS = ("raw", "rollout", "flow")
"""The rows of the paper's tables, in its order. Raw has no residual, the other two have it."""


@dataclass(frozen=True, eq=False)
class ClsRows:
    """`relevance[method]` is layer × position, as seen from CLS; `predicted` the class that the model chose."""

    relevance: Mapping[str, Array]
    predicted: int


def cls_rows(
    model: nn.Module, tokenizer: Any, prepared: Sequence[Prepared], *, progress: bool = False
) -> list[ClsRows]:
    """One entry for each sentence, in their order. Attention is captured in batches, methods run on each alone."""
    adapter = adapter_for(model)
    pad_id, bound = bounded(model, tokenizer, TOKENS_AT_ONCE)
    found: dict[int, ClsRows] = {}
    with bar("attention", len(prepared), progress) as shown:
        for rows in batches([len(one.positions) for one in prepared], bound):
            chosen = [prepared[row] for row in rows]
            captured = capture_batch(model, collate(model, chosen, pad_id), reduce="mean", within=adapter.within)
            predicted = class_logits(model, captured.output).argmax(-1).tolist()
            for place, row in enumerate(rows):
                position = adapter.explained(model, tokenizer, chosen[place])
                relevance = {
                    name: METHODS[name](captured.attention[place], position=position).numpy() for name in TABLE_METHODS
                }
                found[row] = ClsRows(relevance, predicted[place])
                shown.update()
    return [found[row] for row in range(len(prepared))]
