"""One level: an attention call of one input that can be asked for rows.

`Held` has its weights as they were seen, `Computed` (its own file) makes them from queries and keys where they are
read, `Even` has another level's mask and prefers nothing. `Placed` (its own file) is one of them among the positions of
several streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol, TypeAlias

import torch
from torch import Tensor

from attnx.attention.rows import rows_to_one
from attnx.attention.visibility import Mask

NUMBERS_AT_ONCE = 4_000_000
"""Weights in one block, over all heads: 16 MB, which an allocator hands out again and again without new pages."""


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows of one level, without the keys at either end that none of them can see."""

    first_key: int
    weights: Tensor
    """head × query × key."""

    @property
    def keys(self) -> slice:
        return slice(self.first_key, self.first_key + self.weights.shape[-1])


Behind: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""(vector × width, vector) → vector × width: what leaves the block at each of these positions when the vector is taken
from what attention adds there."""


class Level(Protocol):
    """One attention call of one input."""

    @property
    def module(self) -> str:
        """The name of the module that attended, if it is known."""

    @property
    def heads(self) -> int: ...

    @property
    def own(self) -> slice:
        """The positions that are written; all others are carried: they stay what they were below."""

    @property
    def kind(self) -> str:
        """What it is among several streams ("encoder", "self", "cross"); empty where there is one."""

    @property
    def fixed(self) -> bool:
        """Whether it is no attention but a map that no weighting and no residual changes (see `Fixed`)."""

    @property
    def mask(self) -> Mask: ...

    @property
    def whole(self) -> bool:
        """Whether a map of all rows is in memory or small, so that a merged one may be kept beside it."""

    @property
    def brought(self) -> Mapping[str, Tensor]:
        """What else was captured of this call, because a weighting needs it: values, projections, …"""

    @property
    def rest(self) -> Behind | None:
        """The rest of its block, where a weighting needs that."""

    def rows(self, start: int, stop: int) -> Block:
        """The attention of the queries from `start` up to `stop`, in float32 or better."""

    def cropped(self, kept: Tensor, mask: Mask, queries: Tensor | None = None) -> Level:
        """The level over the `kept` positions alone, with its mask cropped alike; of cross-attention its `queries`."""

    def bringing(self, brought: Mapping[str, Tensor]) -> Level:
        """The level with these beside what it brings already."""


@dataclass(frozen=True, eq=False)
class Held:
    """A level whose weights are in memory."""

    fixed: ClassVar[bool] = False

    weights: Tensor
    """head × n × n."""
    mask: Mask
    module: str = ""
    brought: Mapping[str, Tensor] = field(default_factory=dict)
    whole: bool = True
    rest: Behind | None = None
    kind: str = ""

    @property
    def heads(self) -> int:
        return self.weights.shape[0]

    @property
    def own(self) -> slice:
        return slice(0, self.weights.shape[1])

    def rows(self, start: int, stop: int) -> Block:
        return Block(0, self.weights[:, start:stop])

    def cropped(self, kept: Tensor, mask: Mask, queries: Tensor | None = None) -> Held:
        places = kept.to(self.weights.device)
        looking = places if queries is None else queries.to(self.weights.device)
        return replace(self, weights=self.weights[:, looking][:, :, places], mask=mask)

    def bringing(self, brought: Mapping[str, Tensor]) -> Held:
        return replace(self, brought={**self.brought, **brought})


@dataclass(frozen=True, eq=False)
class Even:
    """One head that spreads each query's attention evenly over what the mask shows."""

    fixed: ClassVar[bool] = False

    mask: Mask
    whole: bool = True
    written: slice | None = None
    """The positions that it writes, of several streams; None for all."""
    module: str = ""
    heads: int = 1
    brought: Mapping[str, Tensor] = field(default_factory=dict)
    rest: Behind | None = None
    kind: str = ""

    @property
    def own(self) -> slice:
        return slice(0, self.mask.length) if self.written is None else self.written

    def rows(self, start: int, stop: int) -> Block:
        return Block(0, rows_to_one(self.mask.visible(start, stop).to(torch.float64))[None])

    def cropped(self, kept: Tensor, mask: Mask, queries: Tensor | None = None) -> Even:
        return replace(self, mask=mask)

    def bringing(self, brought: Mapping[str, Tensor]) -> Even:
        return replace(self, brought={**self.brought, **brought})


def blocks(level: Level) -> Iterator[tuple[int, int]]:
    """Ranges of queries, of those that are written, whose rows of all heads fit into one block."""
    own = level.own
    size = max(1, NUMBERS_AT_ONCE // (level.heads * level.mask.length))
    return ((start, min(start + size, own.stop)) for start in range(own.start, own.stop, size))


def all_keys(block: Block, length: int) -> Tensor:
    """head × query × n: the rows of a block with all their keys."""
    if block.weights.shape[-1] == length:
        return block.weights
    rows = block.weights.new_zeros(*block.weights.shape[:2], length)
    rows[..., block.keys] = block.weights
    return rows
