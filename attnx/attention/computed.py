"""Weights from queries and keys: softmax(scale · Q·Kᵀ + mask), beside a kernel that does not give them, or later.

All heads of all layers are L·H·n² numbers, 39 GB for GPT-2 small at n = 8192. What one row of rollout reads can be
computed again from L·n·d numbers, some rows at a time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from attnx.attention import waiting
from attnx.attention.levels import Behind, Block
from attnx.attention.visibility import Mask, may_look
from attnx.interrupts import Unbroken


def full_precision(device: str) -> AbstractContextManager[Any]:
    """No autocast in the block.

    Where none is on nothing is switched: the end of an autocast takes a lock of torch, which a process that is forked
    at that moment would never get.
    """
    return _WithoutAutocast(device) if torch.is_autocast_enabled(device) else nullcontext()


class _WithoutAutocast(Unbroken[None]):
    def __init__(self, device: str) -> None:
        self._off = torch.autocast(device, enabled=False)
        self._entered = False

    def _begin(self) -> None:
        self._entered = True
        self._off.__enter__()  # type: ignore[no-untyped-call]

    def _end(self) -> None:
        entered, self._entered = self._entered, False
        if entered:
            self._off.__exit__(None, None, None)


def attention_weights(
    query: Tensor,
    key: Tensor,
    *,
    mask: Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """softmax(scale · Q·Kᵀ + mask), (batch ×) head × query × key, in float32 or better.

    `key` may have fewer heads than `query` (each shared by a group); `mask` is boolean (true = may look) or additive.
    `softcap` bounds the scores as Gemma 2 does; `sinks` are the scores, one a head, of a key that is not an input
    (gpt-oss), so that rows sum to less than 1. A query that may see nothing has a row of zeros.
    """
    with full_precision(query.device.type):
        return _softmax(_masked(_scores(query, key, scale, softcap), mask), sinks)


@dataclass(frozen=True, eq=False)
class Computed:
    """A level from which any row can be computed."""

    fixed: ClassVar[bool] = False

    query: Tensor
    """head × n × width."""
    key: Tensor
    """key head × n × width; each key head is shared by a group of query heads."""
    mask: Mask
    """Its source is the model's own mask, shared by its layers."""
    scale: float | None = None
    softcap: float | None = None
    sinks: Tensor | None = None
    sums: Tensor | None = None
    """head × n: the logarithm of each row's sum of exp, where the kernel told it."""
    module: str = ""
    brought: Mapping[str, Tensor] = field(default_factory=dict)
    whole: bool = False
    rest: Behind | None = None
    kind: str = ""

    @property
    def heads(self) -> int:
        return self.query.shape[0]

    @property
    def own(self) -> slice:
        return slice(0, self.query.shape[1])

    def rows(self, start: int, stop: int) -> Block:
        mask = None if self.mask.source is None else self.mask.source[..., start:stop, :].to(self.key.device)
        first, last = (0, stop) if self.mask.triangular else _span(mask, self.mask.length)
        with full_precision(self.query.device.type):
            scores = _scores(self.query[:, start:stop], self.key[:, first:last], self.scale, self.softcap)
            if self.mask.triangular:
                # Only the last columns reach beyond the diagonal.
                later = torch.ones(stop - start, stop - start, dtype=torch.bool, device=scores.device).triu(1)
                scores[..., start - stop :].masked_fill_(later, -math.inf)
            return Block(first, _softmax(_masked(scores, None if mask is None else mask[..., first:last]), self.sinks))

    def cropped(self, kept: Tensor, mask: Mask, queries: Tensor | None = None) -> Computed:
        places = kept.to(self.key.device)
        looking = places if queries is None else queries.to(self.key.device)
        return replace(self, query=self.query[:, looking], key=self.key[:, places], mask=mask, sums=None)

    def bringing(self, brought: Mapping[str, Tensor]) -> Computed:
        return replace(self, brought={**self.brought, **brought})


def per_query_head(tensor: Tensor, heads: int) -> Tensor:
    """Keys or values repeated for each query head that shares them (grouped-query attention)."""
    if tensor.ndim != 4 or tensor.shape[1] == heads:
        return tensor
    return tensor.repeat_interleave(heads // tensor.shape[1], dim=1)


def _scores(query: Tensor, key: Tensor, scale: float | None, softcap: float | None) -> Tensor:
    """… × head × query × key, a group of query heads against the keys that they share."""
    dtype = torch.promote_types(query.dtype, torch.float32)
    query, key = query.to(dtype), key.to(dtype)
    *lead, heads, queries, width = query.shape
    grouped = query.reshape(*lead, key.shape[-3], -1, width) @ key.transpose(-2, -1)
    scores = grouped.view(*lead, heads, queries, -1).mul_(1 / math.sqrt(width) if scale is None else scale)
    return scores if softcap is None else softcap * torch.tanh(scores / softcap)


def _masked(scores: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return scores
    return scores.masked_fill_(~mask, -math.inf) if mask.dtype == torch.bool else scores.add_(mask)


def _softmax(scores: Tensor, sinks: Tensor | None) -> Tensor:
    if sinks is not None:
        column = sinks.to(scores.dtype).view(-1, 1, 1).expand(*scores.shape[:-1], 1)
        return torch.cat([scores, column], dim=-1).softmax(-1)[..., :-1]
    weights = scores.softmax(-1)
    if waiting.at_hand(weights) and not bool(weights.detach()[..., :1].isnan().any()):
        return weights
    # A query that may see nothing has a row of NaN here, and gives nothing to any key.
    return weights.masked_fill((scores == -math.inf).all(-1, keepdim=True), 0)


def _span(mask: Tensor | None, length: int) -> tuple[int, int]:
    """From the first to behind the last key that any query of the mask's rows can see."""
    if mask is None:
        return 0, length
    seen = may_look(mask).flatten(0, -2).any(0).nonzero()
    return (int(seen[0]), int(seen[-1]) + 1) if len(seen) else (0, length)
