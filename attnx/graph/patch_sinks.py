"""Patches that take far more attention than their share: the sinks of a vision tower.

A trained tower may use a few patches, often of an even background, as places to keep what belongs to no patch (Darcet
et al. 2024, "Vision transformers need registers"). All others look there, and rollout lights them up for any answer.

The rule is of attention alone. At a level a patch is a sink where the other patches give it at least ten times what it
would get if each spread its attention evenly over all that it sees; the mean over heads and over these patches. Tokens
of the model's own, [CLS] and registers, neither count nor are counted. A thing that every patch looks at for its own
sake takes as much: the rule cannot tell it from a sink.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnx.attention.levels import Level
from attnx.attention.naming import VISION
from attnx.attention.tensor import AttentionTensor

TIMES = 10.0
"""So many times its even share a sink takes."""
_FEWEST = 4
"""Of fewer patches none stands out."""


@dataclass(frozen=True)
class PatchSink:
    """A patch that is a sink, at the level where it takes the most."""

    position: int
    layer: int
    share: float
    """Of the attention of the other patches."""
    times: float
    """Its share by the even one."""


def patch_sinks(attention: AttentionTensor, patches: Sequence[int]) -> list[dict[int, PatchSink]]:
    """Level by level, from the input up, the sinks among the positions of patches."""
    if len(patches) < _FEWEST:
        return [{} for _ in attention.levels]
    return [_of_level(level, number, patches) for number, level in enumerate(attention.levels, start=1)]


def _of_level(level: Level, number: int, patches: Sequence[int]) -> dict[int, PatchSink]:
    if not level.whole or level.fixed or level.kind not in ("", VISION):
        return {}
    shares, times = _taken(level, torch.tensor(patches, device=level.mask.device))
    found = (times >= TIMES).nonzero()[:, 0].tolist()
    return {
        patches[place]: PatchSink(patches[place], number, float(shares[place]), float(times[place])) for place in found
    }


def _taken(level: Level, patches: Tensor) -> tuple[Tensor, Tensor]:
    """Of each patch what the others that see it give it, the mean of them; and that by the even share of each."""
    start, stop = level.own.start, level.own.stop
    block = level.rows(start, stop)
    queries, keys = patches - start, patches - block.first_key
    weights = block.weights.mean(0).double()[queries][:, keys]
    visible = level.mask.visible(start, stop)[queries]
    others = visible[:, patches] & ~torch.eye(len(patches), dtype=torch.bool, device=patches.device)
    seen = visible.sum(-1, keepdim=True).double()
    count = others.sum(0).clamp(min=1)
    return (weights * others).sum(0) / count, (weights * seen * others).sum(0) / count
