"""What each query can see, and which position is the first for all: read off the mask, or off a plain array."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnx.attention import AttentionTensor
from attnx.errors import ChoiceError


def visible_keys(attention: Any, weights: Tensor) -> Tensor:
    """layer × query × key. Of a plain array: causal if no query in any layer gives weight to a later key, else all.

    Other zeros are not taken for a mask: half precision makes them, too. Windows need an `AttentionTensor`.
    """
    if isinstance(attention, AttentionTensor):
        return attention.visible.to(weights.device)
    layers, length = weights.shape[0], weights.shape[-1]
    mask = torch.ones(length, length, dtype=torch.bool, device=weights.device)
    return (mask if bool(weights.detach().triu(1).any()) else mask.tril()).expand(layers, -1, -1)


def first_seen(seen: Tensor, *, causal: bool) -> int:
    """The first position that any query sees, which in a causal model is the sink."""
    if not causal:
        raise ChoiceError("a sink is the first token of a decoder; here queries see later positions, and none is first")
    return int(seen.to(torch.int8).argmax())
