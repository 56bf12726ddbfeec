"""A level of one stream among the positions of all: it writes `own` from `over`, and carries what is not its own.

An encoder–decoder has two streams, the source and the output so far. Their positions stand in one count, the source's
first. An encoder level writes the source from the source, a decoder's self-attention the output from the output, its
cross-attention the output from the source. What a level does not write stays what it was below: an identity row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from attnx.attention.levels import Behind, Block, Level
from attnx.attention.parted import BY_QUERY, KEYED
from attnx.attention.visibility import Mask
from attnx.forks import cached_property


@dataclass(frozen=True, eq=False)
class Placed:
    """A level, and where its queries and keys are among all positions."""

    fixed: ClassVar[bool] = False

    level: Level
    """Counted from 0 in its own streams; of cross-attention query × key is not square."""
    own: slice
    over: slice
    mask: Mask
    """Over all positions, as `placed_mask` makes it."""
    kind: str

    @property
    def module(self) -> str:
        return self.level.module

    @property
    def heads(self) -> int:
        return self.level.heads

    @property
    def whole(self) -> bool:
        return self.level.whole

    @property
    def rest(self) -> Behind | None:
        return self.level.rest

    @cached_property
    def brought(self) -> Mapping[str, Tensor]:
        """As the level has it, with nothing at the positions that are not its own, or that it does not read."""
        return {name: self._placed(name, tensor) for name, tensor in self.level.brought.items()}

    def rows(self, start: int, stop: int) -> Block:
        """Of queries of its `own`. Keys reach from what is read to what is written, which the residual keeps."""
        block = self.level.rows(start - self.own.start, stop - self.own.start)
        if self.own == self.over:
            return Block(block.first_key + self.over.start, block.weights)
        first, last = min(self.own.start, self.over.start), max(self.own.stop, self.over.stop)
        wide = block.weights.new_zeros(*block.weights.shape[:2], last - first)
        begin = self.over.start - first + block.first_key
        wide[..., begin : begin + block.weights.shape[-1]] = block.weights
        return Block(first, wide)

    def cropped(self, kept: Tensor, mask: Mask, queries: Tensor | None = None) -> Placed:
        raise NotImplementedError("padding is cut out of each stream before levels are placed")

    def bringing(self, brought: Mapping[str, Tensor]) -> Placed:
        return replace(self, level=self.level.bringing(brought))

    def _placed(self, name: str, tensor: Tensor) -> Tensor:
        if name == KEYED:
            return _padded(tensor, self.over, self.mask.length, 1)
        ending = name.rpartition(".")[2]
        if ending not in BY_QUERY or (name == "gates" and tensor.numel() == 1):
            return tensor
        if ending == "scale":  # a number a query; where nothing is written it scales nothing
            return _padded(tensor, self.own, self.mask.length, 0, fill=1.0)
        return _padded(tensor, self.own, self.mask.length, tensor.ndim - 2)


def placed_mask(inner: Mask, own: slice, over: slice, length: int) -> Mask:
    """What each of all positions sees in a level: its own what they see there, every other one itself."""
    visible = torch.eye(length, dtype=torch.bool, device=inner.device)
    visible[own] = False
    visible[own, over] = inner.visible(0, inner.rows)
    return Mask(length, inner.device, visible)


def looking_back(levels: Sequence[Level], streams: Mapping[str, slice]) -> slice | None:
    """The positions of the stream in which none sees a later one: all of a decoder, of several streams the one that the
    last level writes; None where positions see later ones."""
    last = levels[-1].own if streams else slice(0, levels[0].mask.length)
    own = [level for level in levels if level.own == last and not level.fixed]
    return last if own and all(level.mask.causal for level in own) else None


def _padded(tensor: Tensor, place: slice, length: int, axis: int, fill: float = 0.0) -> Tensor:
    shape = list(tensor.shape)
    shape[axis] = length
    wide = tensor.new_full(shape, fill)
    wide.narrow(axis, place.start, place.stop - place.start).copy_(tensor)
    return wide
