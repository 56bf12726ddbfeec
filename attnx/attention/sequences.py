"""A level that is no attention: a fixed map from some positions to others, without a residual.

A projector between a vision tower and a decoder is one. An image token is made of the patches that it reads, each with
an equal share, and of nothing that stood at its place before. No weighting and no share of the residual changes that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor

from attnx._signals import cached_property
from attnx.attention.layers import PROJECTOR, AttentionLayer, BlockTail, RowBlock, pad_keys
from attnx.attention.masks import Mask

KEYED = "values"
BY_QUERY = ("states", "gates", "gradient", "scale")
"""What a level brings for each query, by the end of its name; values are brought for each key."""


@dataclass(frozen=True, eq=False)
class TiledLayer:
    """Levels of one layer, side by side."""

    fixed: ClassVar[bool] = False

    parts: tuple[AttentionLayer, ...]
    mask: Mask
    kind: str = ""
    rest: BlockTail | None = None

    @classmethod
    def of(cls, parts: Sequence[AttentionLayer]) -> AttentionLayer:
        """The level of these parts; a single one is itself."""
        if len(parts) == 1:
            return parts[0]
        device, length, begin = parts[0].mask.device, sum(part.mask.length for part in parts), 0
        visible = torch.zeros(length, length, dtype=torch.bool, device=device)
        for part in parts:
            end = begin + part.mask.length
            visible[begin:end, begin:end] = part.mask.visible(0, part.mask.rows)
            begin = end
        return cls(tuple(parts), Mask(length, device, visible))

    @property
    def module(self) -> str:
        return self.parts[0].module

    @property
    def heads(self) -> int:
        return self.parts[0].heads

    @property
    def whole(self) -> bool:
        return all(part.whole for part in self.parts)

    @property
    def own(self) -> slice:
        return slice(0, self.mask.length)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where each part begins, and the end of the last."""
        ends = [0]
        for part in self.parts:
            ends.append(ends[-1] + part.mask.length)
        return tuple(ends)

    @cached_property
    def captured(self) -> Mapping[str, Tensor]:
        """What the parts bring for each of their positions, one behind the other; the rest is the same for all."""
        result = {}
        for name, first in self.parts[0].captured.items():
            ending = name.rpartition(".")[2]
            several = [part.captured[name] for part in self.parts]
            if name == KEYED:
                result[name] = torch.cat(several, dim=1)
            elif ending == "scale":
                result[name] = torch.cat(several)
            elif ending in BY_QUERY and first.numel() > 1:
                result[name] = torch.cat(several, dim=first.ndim - 2)
            else:
                result[name] = first
        return result

    def rows(self, start: int, stop: int) -> RowBlock:
        blocks = []
        for part, begin, end in zip(self.parts, self.starts, self.starts[1:], strict=False):
            first, last = max(start, begin), min(stop, end)
            if first < last:
                tensor = pad_keys(part.rows(first - begin, last - begin), part.mask.length)
                wide = tensor.new_zeros(*tensor.shape[:2], self.mask.length)
                wide[..., begin:end] = tensor
                blocks.append(wide)
        return RowBlock(0, torch.cat(blocks, dim=1))

    def cropped(self, kept: Tensor, mask: Mask, queries: Tensor | None = None) -> AttentionLayer:
        raise NotImplementedError("pictures have no padding that could be cut out")

    def with_captured(self, captured: Mapping[str, Tensor]) -> AttentionLayer:
        raise NotImplementedError("what is brought later is brought to one stack")


@dataclass(frozen=True, eq=False)
class OffsetLayer:
    """A level, and where its queries and keys are among all positions."""

    fixed: ClassVar[bool] = False

    level: AttentionLayer
    """Counted from 0 in its own streams; of cross-attention query × key is not square."""
    own: slice
    over: slice
    mask: Mask
    """Over all positions, as `offset_mask` makes it."""
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
    def rest(self) -> BlockTail | None:
        return self.level.rest

    @cached_property
    def captured(self) -> Mapping[str, Tensor]:
        """As the level has it, with nothing at the positions that are not its own, or that it does not read."""
        return {name: self._placed(name, tensor) for name, tensor in self.level.captured.items()}

    def rows(self, start: int, stop: int) -> RowBlock:
        """Of queries of its `own`. Keys reach from what is read to what is written, which the residual keeps."""
        block = self.level.rows(start - self.own.start, stop - self.own.start)
        if self.own == self.over:
            return RowBlock(block.first_key + self.over.start, block.weights)
        first, last = min(self.own.start, self.over.start), max(self.own.stop, self.over.stop)
        wide = block.weights.new_zeros(*block.weights.shape[:2], last - first)
        begin = self.over.start - first + block.first_key
        wide[..., begin : begin + block.weights.shape[-1]] = block.weights
        return RowBlock(first, wide)

    def cropped(self, kept: Tensor, mask: Mask, queries: Tensor | None = None) -> OffsetLayer:
        raise NotImplementedError("padding is cut out of each stream before levels are placed")

    def with_captured(self, captured: Mapping[str, Tensor]) -> OffsetLayer:
        return replace(self, level=self.level.with_captured(captured))

    def _placed(self, name: str, tensor: Tensor) -> Tensor:
        if name == KEYED:
            return _padded(tensor, self.over, self.mask.length, 1)
        ending = name.rpartition(".")[2]
        if ending not in BY_QUERY or (name == "gates" and tensor.numel() == 1):
            return tensor
        if ending == "scale":  # a number a query; where nothing is written it scales nothing
            return _padded(tensor, self.own, self.mask.length, 0, fill=1.0)
        return _padded(tensor, self.own, self.mask.length, tensor.ndim - 2)


def offset_mask(inner: Mask, own: slice, over: slice, length: int) -> Mask:
    """What each of all positions sees in a level: its own what they see there, every other one itself."""
    visible = torch.eye(length, dtype=torch.bool, device=inner.device)
    visible[own] = False
    visible[own, over] = inner.visible(0, inner.rows)
    return Mask(length, inner.device, visible)


def causal_sequence(layers: Sequence[AttentionLayer], sequences: Mapping[str, slice]) -> slice | None:
    """The positions of the stream in which none sees a later one: all of a decoder, of several streams the one that the
    last level writes; None where positions see later ones."""
    last = layers[-1].own if sequences else slice(0, layers[0].mask.length)
    own = [level for level in layers if level.own == last and not level.fixed]
    return last if own and all(level.mask.causal for level in own) else None


def _padded(tensor: Tensor, place: slice, length: int, axis: int, fill: float = 0.0) -> Tensor:
    shape = list(tensor.shape)
    shape[axis] = length
    wide = tensor.new_full(shape, fill)
    wide.narrow(axis, place.start, place.stop - place.start).copy_(tensor)
    return wide


@dataclass(frozen=True, eq=False)
class ConstantLayer:
    """One head whose rows are what they are, whatever is asked."""

    fixed: ClassVar[bool] = True

    weights: Tensor
    """own query × key, over all positions; each row sums to 1."""
    own: slice
    mask: Mask
    module: str = ""
    kind: str = PROJECTOR
    heads: int = 1
    whole: bool = True
    captured: Mapping[str, Tensor] = field(default_factory=dict)
    rest: BlockTail | None = None

    @classmethod
    def of(cls, reads: Mapping[int, Sequence[int]], length: int, device: torch.device) -> ConstantLayer:
        """Each position that reads others is their mean; all others stay what they are."""
        own = slice(min(reads), max(reads) + 1)
        weights = torch.eye(length, device=device)[own].clone()
        for position, read in reads.items():
            weights[position - own.start] = 0
            weights[position - own.start, list(read)] = 1 / len(read)
        visible = torch.eye(length, dtype=torch.bool, device=device)
        visible[own] = weights > 0
        return cls(weights, own, Mask(length, device, visible))

    def rows(self, start: int, stop: int) -> RowBlock:
        return RowBlock(0, self.weights[None, start - self.own.start : stop - self.own.start])

    def cropped(self, kept: Tensor, mask: Mask, queries: Tensor | None = None) -> AttentionLayer:
        raise NotImplementedError("padding is cut out of each stream before levels are placed")

    def with_captured(self, captured: Mapping[str, Tensor]) -> AttentionLayer:
        return self
