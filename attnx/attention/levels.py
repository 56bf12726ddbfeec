"""One level: an attention call of one input that can be asked for rows.

`Held` has its weights as they were seen, `Computed` (its own file) makes them from queries and keys where they are
read, `Even` has another level's mask and prefers nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

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

    def cropped(self, kept: Tensor, mask: Mask) -> Level:
        """The level over the `kept` positions alone, with its mask cropped alike."""


@dataclass(frozen=True, eq=False)
class Held:
    """A level whose weights are in memory."""

    weights: Tensor
    """head × n × n."""
    mask: Mask
    module: str = ""
    brought: Mapping[str, Tensor] = field(default_factory=dict)
    whole: bool = True
    rest: Behind | None = None

    @property
    def heads(self) -> int:
        return self.weights.shape[0]

    def rows(self, start: int, stop: int) -> Block:
        return Block(0, self.weights[:, start:stop])

    def cropped(self, kept: Tensor, mask: Mask) -> Held:
        places = kept.to(self.weights.device)
        return replace(self, weights=self.weights[:, places][:, :, places], mask=mask)


@dataclass(frozen=True, eq=False)
class Even:
    """One head that spreads each query's attention evenly over what the mask shows."""

    mask: Mask
    whole: bool = True
    module: str = ""
    heads: int = 1
    brought: Mapping[str, Tensor] = field(default_factory=dict)
    rest: Behind | None = None

    def rows(self, start: int, stop: int) -> Block:
        return Block(0, rows_to_one(self.mask.visible(start, stop).to(torch.float64))[None])

    def cropped(self, kept: Tensor, mask: Mask) -> Even:
        return replace(self, mask=mask)


def blocks(level: Level) -> Iterator[tuple[int, int]]:
    """Ranges of queries whose rows of all heads fit into one block."""
    length = level.mask.length
    size = max(1, NUMBERS_AT_ONCE // (level.heads * length))
    return ((start, min(start + size, length)) for start in range(0, length, size))


def all_keys(block: Block, length: int) -> Tensor:
    """head × query × n: the rows of a block with all their keys."""
    if block.weights.shape[-1] == length:
        return block.weights
    rows = block.weights.new_zeros(*block.weights.shape[:2], length)
    rows[..., block.keys] = block.weights
    return rows
