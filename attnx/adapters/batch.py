"""Prepared inputs side by side in one batch, padded on the right, with only what the model's forward takes."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import Parameter, signature
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from attnx.adapters.adapter import Prepared
from attnx.adapters.architecture import base_model


def collate(model: nn.Module, prepared: Sequence[Prepared], pad_id: int | None) -> dict[str, Any]:
    """The model's keyword arguments for a batch, on its device; floating inputs in its precision."""
    accepted = _accepted(model)
    device, dtype = _place(model)
    batch = {}
    for name in prepared[0].inputs:
        if accepted is None or name in accepted:
            fill = (pad_id or 0) if name == "input_ids" else 0
            rows = [one.inputs[name] for one in prepared]
            stacked = (
                pad_sequence(rows, batch_first=True, padding_value=fill) if rows[0].ndim == 1 else torch.stack(rows)
            )
            batch[name] = stacked.to(device, dtype if stacked.is_floating_point() else stacked.dtype)
    return {**batch, **prepared[0].options}


def padding_id(model: nn.Module, processor: Any) -> int | None:
    """The id that pads a batch. Without one a batch is one input: some heads find the last token by looking for it."""
    for owner in (getattr(model, "config", None), processor):
        token_id = getattr(owner, "pad_token_id", None)
        if isinstance(token_id, int) and token_id >= 0:
            return token_id
    return None


def _place(model: nn.Module) -> tuple[torch.device | None, torch.dtype]:
    """Where the inputs go, None to leave them: weights that are offloaded have no device until they are used."""
    first = next(model.parameters())
    device = getattr(model, "device", first.device)
    return None if device.type == "meta" else device, first.dtype


def _accepted(model: nn.Module) -> set[str] | None:
    """Names that the model's forward takes, under a wrapper also its own; None when it takes any."""
    parameters = signature(model.forward).parameters.values()
    named = {one.name for one in parameters if one.kind not in (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)}
    if not any(one.kind is Parameter.VAR_KEYWORD for one in parameters):
        return named
    inner = base_model(model)
    if inner is not model:
        return named | (_accepted(inner) or set())
    return named if named & {"input_ids", "pixel_values"} else None
