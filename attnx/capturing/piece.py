"""A shorter piece of a long input, on which it is proven that looking on changes nothing.

The observer changes no operation of the model, whatever the length. So its beginning proves as much as all of it, where
the model runs both in the same way: the same calls of attention in the same modules, with the same kinds of masks. A
model that switches to another attention, or to a window, for long inputs is proven on the whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from attnx.attention.anew import Anew
from attnx.attention.computed import Computed
from attnx.attention.levels import Level
from attnx.attention.tensor import AttentionTensor

LENGTH = 1_024
"""Positions of the piece: as many as an input may have that is held."""

_BY_POSITION = {"input_ids", "inputs_embeds", "attention_mask", "token_type_ids", "position_ids"}
_ANSWERS = "logits_to_keep"


def beginning_of(inputs: Mapping[str, Any]) -> dict[str, Any] | None:
    """The first positions of one long text, as the model takes them; None where there is no such piece of it."""
    tensors = {name: one for name, one in inputs.items() if isinstance(one, Tensor)}
    texts = [one for name, one in tensors.items() if name in ("input_ids", "inputs_embeds")]
    if len(texts) != 1 or len(texts[0]) != 1 or texts[0].shape[1] < 2 * LENGTH:
        return None
    cut = {name for name, one in tensors.items() if name in _BY_POSITION and one.shape[1:2] == texts[0].shape[1:2]}
    if tensors.keys() - cut - {_ANSWERS}:
        return None
    piece = {name: one[:, :LENGTH] if name in cut else one for name, one in inputs.items()}
    if _ANSWERS in tensors:
        piece[_ANSWERS] = torch.tensor([LENGTH - 1], device=texts[0].device)
    return piece


def run_alike(piece: AttentionTensor, whole: AttentionTensor) -> bool:
    """Whether the model ran a piece as it ran all of it."""
    return list(map(_way, piece.levels)) == list(map(_way, whole.levels))


def _way(level: Level) -> tuple[Any, ...]:
    return level.module, _kind(level), level.heads, level.kind, level.mask.triangular, level.mask.source is None


def _kind(level: Level) -> type:
    """How it is kept; what is made anew would be kept if it were shorter."""
    return Computed if isinstance(level, Anew) else type(level)
