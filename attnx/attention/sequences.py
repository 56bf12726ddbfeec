"""Layers of several sequences in one count of positions: their names, and layers that are offset, tiled or constant.

A constant layer is no attention but a fixed map from some positions to others, without a residual. A projector between
a vision tower and a decoder is one: an image token is made of the patches that it reads, each with an equal share, and
of nothing that stood at its position before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import ClassVar

import torch
from torch import Tensor

from attnx._signals import cached_property
from attnx.attention.layers import AttentionLayer, BlockTail, Layer, RowBlock, pad_keys
from attnx.attention.masks import Mask
from attnx.errors import ChoiceError, whole_number
from attnx.registry import unknown

SELF, CROSS = "self", "cross"
VISION, PROJECTOR, DECODER = "vision", "projector", "decoder"
"""Of an image with a text: the tower's attention, the fixed map between, the decoder's own."""
KINDS = ("encoder", SELF, CROSS)
"""A source's own attention, an output's own, and the output's to the source."""


def layers_of_kind(kinds: Sequence[str], kind: str) -> tuple[int, ...]:
    """The numbers, from 1, of the layers of a kind."""
    result = tuple(number for number, name in enumerate(kinds, start=1) if name == kind and name)
    if not result:
        known = list(dict.fromkeys(name for name in kinds if name))
        if not known:
            raise ChoiceError(f"{kind!r} names a layer of an encoder–decoder; here there is one stack: give its number")
        raise ChoiceError(unknown("kind of layer", kind, known))
    return result


def layer_number(kinds: Sequence[str], layer: int | str) -> int:
    """The number of a layer in the one count, of a name or of a number as it is.

    >>> layer_number(["encoder", "self", "cross", "self", "cross"], "cross 1")
    3
    >>> layer_number(["encoder", "self", "cross", "self", "cross"], "self")
    4
    """
    if not isinstance(layer, str):
        return whole_number("layer", layer)
    kind, _, index = layer.strip().partition(" ")
    numbers = layers_of_kind(kinds, kind)
    if not index:
        return numbers[-1]
    if not index.isdecimal() or not 1 <= int(index) <= len(numbers):
        raise ChoiceError(f"layer {layer!r} was requested, but the model has {kind} 1 to {kind} {len(numbers)}")
    return numbers[int(index) - 1]


def layer_name(kinds: Sequence[str], number: int) -> str:
    """What a layer is called: the name of its kind with its index, or its number where there is one stack."""
    kind = kinds[number - 1]
    return f"{kind} {layers_of_kind(kinds, kind).index(number) + 1}" if kind else str(number)


KEYED = "values"
BY_QUERY = ("states", "gates", "gradient", "scale")
"""What is captured for each query, by the end of its name; values are captured for each key."""


def _query_axis(name: str, tensor: Tensor) -> int | None:
    """The axis of what is captured that counts queries, or keys in `values`; None where it is the same for all."""
    if name == KEYED:
        return 1
    ending = name.rpartition(".")[2]
    if ending not in BY_QUERY or (ending == "gates" and tensor.numel() == 1):
        return None
    return 0 if ending == "scale" else tensor.ndim - 2


@dataclass(frozen=True, eq=False)
class TiledLayer:
    """Parts of one layer that attend apart, side by side."""

    fixed: ClassVar[bool] = False

    parts: tuple[AttentionLayer, ...]
    mask: Mask
    kind: str = ""
    rest: BlockTail | None = None

    @classmethod
    def of(cls, parts: Sequence[AttentionLayer]) -> AttentionLayer:
        """The layer of these parts; a single one is itself."""
        if len(parts) == 1:
            return parts[0]
        blocks = [part.mask.visible(0, part.mask.rows) for part in parts]
        visible: Tensor = torch.block_diag(*blocks).bool()  # type: ignore[no-untyped-call]
        return cls(tuple(parts), Mask(len(visible), parts[0].mask.device, visible))

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
    def query_slice(self) -> slice:
        return slice(0, self.mask.length)

    @cached_property
    def captured(self) -> Mapping[str, Tensor]:
        """What was captured for each position of the parts, one behind the other; the rest is the same for all."""
        result = {}
        for name, first in self.parts[0].captured.items():
            axis = _query_axis(name, first)
            result[name] = first if axis is None else torch.cat([part.captured[name] for part in self.parts], dim=axis)
        return result

    def rows(self, start: int, stop: int) -> RowBlock:
        blocks = []
        ends = accumulate(part.mask.length for part in self.parts)
        for part, end in zip(self.parts, ends, strict=True):
            begin = end - part.mask.length
            first, last = max(start, begin), min(stop, end)
            if first < last:
                rows = pad_keys(part.rows(first - begin, last - begin), part.mask.length)
                blocks.append(pad_keys(RowBlock(begin, rows), self.mask.length))
        return RowBlock(0, torch.cat(blocks, dim=1))

    def cropped(self, kept: Tensor, mask: Mask, queries: Tensor | None = None) -> AttentionLayer:
        raise NotImplementedError("images have no padding that could be cut out")

    def with_captured(self, captured: Mapping[str, Tensor]) -> AttentionLayer:
        raise NotImplementedError("what is captured later belongs to one stack")


@dataclass(frozen=True, eq=False)
class OffsetLayer:
    """A layer, and where its queries and keys are among all positions."""

    fixed: ClassVar[bool] = False

    level: AttentionLayer
    """Counted from 0 in its own sequences; of cross-attention query × key is not square."""
    query_slice: slice
    key_slice: slice
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
        """As the layer has it, with nothing at the positions that do not attend, or that it does not read."""
        result = {}
        for name, tensor in self.level.captured.items():
            axis = _query_axis(name, tensor)
            if axis is None:
                result[name] = tensor
                continue
            positions = self.key_slice if name == KEYED else self.query_slice
            shape = [*tensor.shape[:axis], self.mask.length, *tensor.shape[axis + 1 :]]
            # A scale is a number a query; where nothing attends it scales nothing.
            result[name] = tensor.new_full(shape, 1.0 if name.rpartition(".")[2] == "scale" else 0.0)
            result[name].narrow(axis, positions.start, positions.stop - positions.start).copy_(tensor)
        return result

    def rows(self, start: int, stop: int) -> RowBlock:
        """Of queries in its `query_slice`. Keys reach from what is read to what attends, which the residual keeps."""
        queries, keys = self.query_slice, self.key_slice
        block = self.level.rows(start - queries.start, stop - queries.start)
        if queries == keys:
            return RowBlock(block.first_key + keys.start, block.weights)
        first, last = min(queries.start, keys.start), max(queries.stop, keys.stop)
        return RowBlock(first, pad_keys(RowBlock(keys.start - first + block.first_key, block.weights), last - first))

    def cropped(self, kept: Tensor, mask: Mask, queries: Tensor | None = None) -> OffsetLayer:
        raise NotImplementedError("padding is cut out of each sequence before layers are offset")

    def with_captured(self, captured: Mapping[str, Tensor]) -> OffsetLayer:
        return replace(self, level=self.level.with_captured(captured))


def offset_mask(inner: Mask, queries: slice, keys: slice, length: int) -> Mask:
    """What each of all positions sees in a layer: its queries what they see there, every other one itself."""
    visible = torch.eye(length, dtype=torch.bool, device=inner.device)
    visible[queries] = False
    visible[queries, keys] = inner.visible(0, inner.rows)
    return Mask(length, inner.device, visible)


def causal_sequence(layers: Sequence[AttentionLayer], sequences: Mapping[str, slice]) -> slice | None:
    """The positions of the sequence in which none sees a later one: all of a decoder, of several sequences the one
    whose queries the last layer has; None where positions see later ones."""
    last = layers[-1].query_slice if sequences else slice(0, layers[0].mask.length)
    same = [layer for layer in layers if layer.query_slice == last and not layer.fixed]
    return last if same and all(layer.mask.causal for layer in same) else None


@dataclass(frozen=True, eq=False)
class ConstantLayer(Layer):
    """One head whose rows are always the same."""

    fixed: ClassVar[bool] = True

    weights: Tensor
    """query × key, over all positions; each row sums to 1."""
    query_slice: slice
    mask: Mask
    heads: int = 1
    whole: bool = True

    @classmethod
    def of(cls, reads: Mapping[int, Sequence[int]], length: int, device: torch.device) -> ConstantLayer:
        """Each position that reads others is their mean; all others stay what they are."""
        queries = slice(min(reads), max(reads) + 1)
        weights = torch.eye(length, device=device)[queries].clone()
        for position, read in reads.items():
            weights[position - queries.start] = 0
            weights[position - queries.start, list(read)] = 1 / len(read)
        visible = torch.eye(length, dtype=torch.bool, device=device)
        visible[queries] = weights > 0
        return cls(weights, queries, Mask(length, device, visible), kind=PROJECTOR)

    def rows(self, start: int, stop: int) -> RowBlock:
        return RowBlock(0, self.weights[None, start - self.query_slice.start : stop - self.query_slice.start])

    def cropped(self, kept: Tensor, mask: Mask, queries: Tensor | None = None) -> AttentionLayer:
        raise NotImplementedError("padding is cut out of each sequence before layers are offset")

    def with_captured(self, captured: Mapping[str, Tensor]) -> ConstantLayer:
        return self
