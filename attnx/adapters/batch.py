"""Prepared inputs side by side in one batch, padded on the right, with only what the model's forward takes."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import Parameter, signature
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from attnx.adapters.adapter import Prepared


def collate(model: nn.Module, prepared: Sequence[Prepared], pad_id: int | None) -> dict[str, Tensor]:
    """The model's keyword arguments for a batch, on its device; floating inputs in its precision."""
    accepted = _accepted(model)
    first = next(model.parameters())
    batch = {}
    for name in prepared[0].inputs:
        if accepted is None or name in accepted:
            fill = (pad_id or 0) if name == "input_ids" else 0
            rows = [one.inputs[name] for one in prepared]
            stacked = (
                pad_sequence(rows, batch_first=True, padding_value=fill) if rows[0].ndim == 1 else torch.stack(rows)
            )
            dtype = first.dtype if stacked.is_floating_point() else stacked.dtype
            batch[name] = stacked.to(first.device, dtype)
    return batch


def padding_id(model: nn.Module, processor: Any) -> int | None:
    """The id that pads a batch. Without one a batch is one input: some heads find the last token by looking for it."""
    for owner in (getattr(model, "config", None), processor):
        token_id = getattr(owner, "pad_token_id", None)
        if isinstance(token_id, int) and token_id >= 0:
            return token_id
    return None


def _accepted(model: nn.Module) -> set[str] | None:
    """Names that the model's forward takes; None when it takes any (a wrapper with nothing but **kwargs)."""
    parameters = signature(model.forward).parameters.values()
    named = {one.name for one in parameters if one.kind not in (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)}
    wraps = any(one.kind is Parameter.VAR_KEYWORD for one in parameters)
    return None if wraps and not named & {"input_ids", "pixel_values"} else named
