"""The runner-up of each token that was written: the best of all others when its turn came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from attnx.answer.registry import logits_of
from attnx.capturing.watch import undisturbed
from attnx.errors import CaptureError
from attnx.inputs.adapter import Prepared
from attnx.inputs.model_facts import takes_logits_to_keep, without_cache
from attnx.running.batches import collate, padding_id


def runners_up(model: nn.Module, tokenizer: Any, whole: Prepared, queries: Sequence[int]) -> list[int]:
    """For each position that predicted a token, the id of the best token that is not the one that was written."""
    inputs = without_cache(model, collate(model, [whole], padding_id(model, tokenizer)))
    ids = whole.written_ids
    places = torch.tensor(queries, device=next(iter(inputs.values())).device)
    told = {"logits_to_keep": places} if takes_logits_to_keep(model) else {}
    with undisturbed(model):
        logits = logits_of(model, model(**inputs, **told))
        if logits is None:
            raise CaptureError(
                f"{type(model).__name__} predicts no token, so none is a runner-up; load it with its head"
            )
        best = (logits[0] if told else logits[0, places - whole.source_length]).topk(2).indices
    return [
        next(one for one in pair if one != wrote)
        for pair, wrote in zip(best.tolist(), (ids[query + 1] for query in queries), strict=True)
    ]
