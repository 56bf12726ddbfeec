"""Flow of models that spread attention evenly, which the receptive field is measured by (see `receptive_field`).

The one that sees everything has a closed form. The one behind a mask is searched like any other, and remembered: it
depends on the mask, the residual and the row, not on the text.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from attnx.methods.question import Question

Key: TypeAlias = tuple[Any, ...]

REMEMBERED = 256
"""Rows or stacks of rows, the latest."""

NUMBERS = 50_000
"""No larger answer is remembered: all of them together stay below a tenth of a gigabyte."""

_flows: dict[Key, Tensor] = {}


def flows_everywhere(own: Tensor, even: Tensor, residual: Tensor, depth: int) -> Tensor:
    """min(1, (depth − 1)·(1 − A[s, s]) + A[s, t]) between two positions, and 1 from a position to itself.

    The cut is the source's own column: all that leaves it on the way, and its edge to the sink in layer 1. Even layers
    hold nothing else back. `own` and `even` are query × input, as in `receptive_field.Everywhere`.
    """
    layer = residual * own + (1 - residual) * even
    if depth == 1:
        return layer
    straight = (layer * own).sum(-1, keepdim=True)
    aside = ((depth - 1) * (1 - straight) + layer).clamp(max=1)
    # To a position that no query sees there is only the way straight down.
    return torch.where(even > 0, torch.where(own > 0, 1.0, aside), layer)


def uninformed_flow(question: Question, *, solve: Callable[[Question], Tensor], solver: str) -> Tensor:
    """Flow of the uninformed model that the question is about, remembered where it is small."""
    numbers = len(question.layers) * len(question.positions) * question.length
    if numbers > NUMBERS or question.weights.is_meta:  # a long input's are computed where they are read
        return solve(question)
    key = (
        solver,
        question.layers,
        question.positions,
        question.residual,
        question.drop_sink,
        *_fingerprint(question.weights),
    )
    found = _flows.get(key)
    if found is None:
        found = solve(question)
        while len(_flows) >= REMEMBERED:
            _flows.pop(next(iter(_flows)), None)
        _flows[key] = found.cpu()
    return found.to(question.device)


def _fingerprint(weights: Tensor) -> tuple[tuple[int, ...], bytes]:
    """Even weights are known by where they are not 0."""
    layers = weights[:1] if weights.stride(0) == 0 else weights
    return tuple(weights.shape), blake2b(np.packbits((layers > 0).numpy(force=True)).tobytes(), digest_size=16).digest()
