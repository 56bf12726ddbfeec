"""What each method says of each sentence at every layer, for many sentences in batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from attnx.adapters import Prepared, adapter_for
from attnx.adapters.batch import collate, padding_id
from attnx.batching import batches
from attnx.capture import capture_batch
from attnx.capture.watch import undisturbed
from attnx.errors import InputError
from attnx.methods import METHODS
from attnx.prediction import predict
from attnx.progress import bar
from attnx.references.case import mixes_lengths
from attnx.reproduce import protocols

Array = np.ndarray[Any, np.dtype[np.float64]]

TABLE_METHODS = ("raw", "rollout", "flow")
"""The rows of the paper's tables, in its order. Raw has no residual, the other two have it."""


@dataclass(frozen=True, eq=False)
class Rows:
    """`relevance[method]` is layer × position; `predicted` the class that the model chose."""

    relevance: Mapping[str, Array]
    predicted: int


def relevance_rows(
    model: nn.Module, tokenizer: Any, prepared: Sequence[Prepared], rows: protocols.Rows, *, progress: bool = False
) -> list[Rows]:
    """One entry for each sentence, in their order. Attention is captured in batches, methods run on each alone."""
    adapter, pad_id = adapter_for(model), padding_id(model, tokenizer)
    with undisturbed(model):
        mixed = mixes_lengths(model, prepared, pad_id)
    found: dict[int, Rows] = {}
    with bar("attention", len(prepared), progress) as shown:
        for batch in batches([len(one.positions) for one in prepared], mixed=mixed):
            chosen = [prepared[index] for index in batch]
            captured = capture_batch(model, collate(model, chosen, pad_id), reduce="mean", within=adapter.within)
            for place, index in enumerate(batch):
                position = adapter.explained(model, tokenizer, chosen[place])
                prediction = predict(model, tokenizer, captured.output, place, position)
                if prediction is None or prediction.kind != "class":
                    raise InputError(f"{type(model).__name__} does not classify whole inputs; load it with such a head")
                relevance = {
                    name: _relevance(name, captured.attention[place], position, rows) for name in TABLE_METHODS
                }
                found[index] = Rows(relevance, prediction.index)
                shown.update()
    return [found[index] for index in range(len(prepared))]


def _relevance(method: str, attention: Any, position: int, rows: protocols.Rows) -> Array:
    if rows == "CLS":
        row: Array = METHODS[method](attention, position=position).numpy()
        return row
    most: Array = METHODS[method](attention).amax(1).numpy()
    return most
