"""Attention of a long input, never held: queries and keys of each layer, and rows computed from them in blocks.

All heads of all layers are L·H·n² numbers, 39 GB for GPT-2 small at n = 8192. What one row of rollout reads can be
computed again from L·n·d numbers, some rows at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from attnx.errors import AttentionError

LONG_INPUT = 1024
"""Above this many positions `explain` keeps queries and keys, and computes rows from them instead of holding them."""

NUMBERS_AT_ONCE = 4_000_000
"""Weights in one block, over all heads: 16 MB, which an allocator hands out again and again without new pages."""

NEVER = -700.0
"""exp(−700) is about the least that float64 holds: a score so far below its row's best is a mask, not a preference."""


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows of one layer, without the keys at either end that none of them can see."""

    first_key: int
    weights: Tensor
    """head × query × key."""

    @property
    def keys(self) -> slice:
        return slice(self.first_key, self.first_key + self.weights.shape[-1])


class LayerRows(Protocol):
    """One layer of one input that can be asked for rows of its attention."""

    @property
    def heads(self) -> int: ...

    @property
    def length(self) -> int: ...

    @property
    def device(self) -> torch.device: ...

    def rows(self, start: int, stop: int) -> Block:
        """The attention of the queries from `start` up to `stop`, in float32 or better."""

    def visible(self, start: int, stop: int) -> Tensor:
        """query × key, true where these queries could look."""

    def cropped(self, kept: Tensor, mask: Tensor | None) -> LayerRows:
        """The layer over the `kept` positions alone, with its mask cropped alike."""


@dataclass(frozen=True, eq=False)
class QueriesAndKeys:
    """A layer from which any row can be computed: softmax(scale · Q·Kᵀ + mask)."""

    query: Tensor
    """head × n × width."""
    key: Tensor
    """key head × n × width; each key head is shared by a group of query heads."""
    mask: Tensor | None = None
    """(head or 1) × n × n: boolean (true = may look) or additive. It is the model's own, shared by its layers."""
    causal: bool = False
    """Whether a query sees no later key; there is no mask then."""
    scale: float | None = None
    softcap: float | None = None
    sinks: Tensor | None = None
    """The scores, one a head, of a key that is not an input (gpt-oss)."""

    @property
    def heads(self) -> int:
        return self.query.shape[0]

    @property
    def length(self) -> int:
        return self.key.shape[1]

    @property
    def device(self) -> torch.device:
        return self.key.device

    def rows(self, start: int, stop: int) -> Block:
        mask = None if self.mask is None else self.mask[:, start:stop].to(self.device)
        first, last = (0, stop) if self.causal else _span(mask, self.length)
        scores = self._scores(slice(start, stop), slice(first, last))
        if self.softcap is not None:
            scores = self.softcap * torch.tanh(scores / self.softcap)
        if self.causal:
            # Only the last columns reach beyond the diagonal.
            later = torch.ones(stop - start, stop - start, dtype=torch.bool, device=scores.device).triu(1)
            scores[..., start - stop :].masked_fill_(later, -math.inf)
        elif mask is not None:
            mask = mask[..., first:last]
            scores = scores.masked_fill_(~mask, -math.inf) if mask.dtype == torch.bool else scores.add_(mask)
        return Block(first, self._softmax(scores))

    def visible(self, start: int, stop: int) -> Tensor:
        places = torch.arange(self.length, device=self.key.device)
        if self.causal:
            return places[start:stop, None] >= places
        if self.mask is None:
            return torch.ones(stop - start, self.length, dtype=torch.bool, device=self.key.device)
        return may_look(self.mask[:, start:stop]).any(0).to(self.device)

    def cropped(self, kept: Tensor, mask: Tensor | None) -> QueriesAndKeys:
        kept = kept.to(self.key.device)
        return replace(self, query=self.query[:, kept], key=self.key[:, kept], mask=mask)

    def _scores(self, queries: slice, keys: slice) -> Tensor:
        """head × query × key, a group of query heads against the keys that they share."""
        dtype = torch.promote_types(self.query.dtype, torch.float32)
        scale = 1 / math.sqrt(self.query.shape[-1]) if self.scale is None else self.scale
        query = self.query[:, queries].to(dtype) * scale
        key = self.key[:, keys].to(dtype)
        with torch.autocast(query.device.type, enabled=False):
            scores = query.reshape(len(key), -1, query.shape[-1]) @ key.transpose(-2, -1)
        return scores.view(len(query), query.shape[1], -1)

    def _softmax(self, scores: Tensor) -> Tensor:
        if self.sinks is not None:
            column = self.sinks.to(scores.dtype).view(-1, 1, 1).expand(-1, scores.shape[1], 1)
            return torch.cat([scores, column], dim=-1).softmax(-1)[..., :-1]
        weights = scores.softmax(-1)
        # A query that may see nothing has a row of NaN here, and gives nothing to any key.
        empty = weights[..., :1].isnan()
        return weights.masked_fill_(empty, 0) if bool(empty.any()) else weights


@dataclass(frozen=True, eq=False)
class HeldRows:
    """A layer that cannot be computed again from queries and keys, and is held as it was seen."""

    weights: Tensor
    """head × n × n."""
    mask: Tensor | None = None
    """n × n, true where a query could look."""

    @property
    def heads(self) -> int:
        return self.weights.shape[0]

    @property
    def length(self) -> int:
        return self.weights.shape[-1]

    @property
    def device(self) -> torch.device:
        return self.weights.device

    def rows(self, start: int, stop: int) -> Block:
        return Block(0, self.weights[:, start:stop])

    def visible(self, start: int, stop: int) -> Tensor:
        if self.mask is None:
            return torch.ones(stop - start, self.length, dtype=torch.bool, device=self.weights.device)
        return self.mask[start:stop]

    def cropped(self, kept: Tensor, mask: Tensor | None) -> HeldRows:
        kept = kept.to(self.weights.device)
        return HeldRows(self.weights[:, kept][:, :, kept], mask)


@dataclass(frozen=True, eq=False)
class LongAttention:
    """Attention of one input through all layers, as an `AttentionTensor` has it, but computed where it is read."""

    stack: tuple[LayerRows, ...]
    modules: tuple[str, ...]
    merged: str | None = None
    """How the heads of layers that are held were merged; None when every head can be had."""

    def __post_init__(self) -> None:
        if not self.stack or len({layer.length for layer in self.stack}) != 1:
            raise AttentionError("long attention needs layers, all over the same positions")

    @property
    def layers(self) -> int:
        return len(self.stack)

    @property
    def heads(self) -> int:
        return max(layer.heads for layer in self.stack)

    @property
    def length(self) -> int:
        """n, the number of input positions."""
        return self.stack[0].length

    @property
    def device(self) -> torch.device:
        return self.stack[0].device

    @property
    def causal(self) -> bool:
        """Whether no query could see a later position, in any layer. One position alone is not called causal."""
        return self.length > 1 and all(_is_causal(layer) for layer in self.stack)

    @property
    def held(self) -> tuple[str, ...]:
        """Modules whose attention could not be computed again, and takes n × n numbers."""
        return tuple(name for name, layer in zip(self.modules, self.stack, strict=True) if isinstance(layer, HeldRows))

    def __repr__(self) -> str:
        kind = ", causal" if self.causal else ""
        return f"LongAttention({self.layers} layers, {self.heads} heads, {self.length} positions{kind})"


def blocks(layer: LayerRows) -> Iterator[tuple[int, int]]:
    """Ranges of queries whose rows of all heads fit into one block."""
    size = max(1, NUMBERS_AT_ONCE // (layer.heads * layer.length))
    return ((start, min(start + size, layer.length)) for start in range(0, layer.length, size))


def whole_rows(layer: LayerRows, start: int, stop: int) -> Tensor:
    """head × query × n: some rows with all their keys."""
    block = layer.rows(start, stop)
    rows = block.weights.new_zeros(*block.weights.shape[:2], layer.length)
    rows[..., block.keys] = block.weights
    return rows


def may_look(mask: Tensor) -> Tensor:
    """Where a boolean or an additive mask leaves any weight to a key."""
    return mask if mask.dtype == torch.bool else mask - mask.amax(-1, keepdim=True) > NEVER


def _span(mask: Tensor | None, length: int) -> tuple[int, int]:
    """From the first to behind the last key that any query of the mask's rows can see."""
    if mask is None:
        return 0, length
    seen = may_look(mask).flatten(0, -2).any(0).nonzero()
    return (int(seen[0]), int(seen[-1]) + 1) if len(seen) else (0, length)


def _is_causal(layer: LayerRows) -> bool:
    if isinstance(layer, QueriesAndKeys) and (layer.causal or layer.mask is None):
        return layer.causal
    return not any(bool(layer.visible(start, stop).triu(start + 1).any()) for start, stop in blocks(layer))
