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

from attnx.graph.asked import Asked
from attnx.graph.graph import Graph

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


def remembered(graph: Graph, asked: Asked, *, solve: Callable[[Graph, Asked], Tensor], solver: str) -> Tensor:
    """Flow of an uninformed graph, remembered where it is small."""
    numbers = len(asked.layers) * len(asked.positions) * graph.length
    if numbers > NUMBERS or not graph.whole:  # a long input's masks are not read for a name
        return solve(graph, asked)
    key = (solver, asked.layers, asked.positions, graph.rules.residual, graph.rules.sink, *_fingerprint(graph))
    found = _flows.get(key)
    if found is None:
        found = solve(graph, asked)
        while len(_flows) >= REMEMBERED:
            _flows.pop(next(iter(_flows)), None)
        _flows[key] = found.cpu()
    return found.to(graph.device)


def _fingerprint(graph: Graph) -> tuple[Any, ...]:
    """Even levels are known by their masks, each named once."""
    masks = [edges.weights.level.mask for edges in graph.levels]
    names: dict[int, bytes] = {}
    for mask in masks:
        if id(mask) not in names:
            seen = np.packbits(mask.visible(0, mask.length).numpy(force=True))
            names[id(mask)] = blake2b(seen.tobytes(), digest_size=16).digest()
    return (graph.length, *(names[id(mask)] for mask in masks))
