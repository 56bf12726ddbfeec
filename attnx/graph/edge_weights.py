"""Edge weights: what an edge of the attention graph weighs, by name in the registry `EDGE_WEIGHTS`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

import torch
from torch import Tensor

from attnx._signals import cached_property
from attnx.attention import (
    AttentionLayer,
    HeadReduction,
    RowBlock,
    blocks,
    check_attention,
    is_attention,
    merge_heads,
    pad_keys,
    pulled,
)
from attnx.errors import ChoiceError, whole_number
from attnx.registry import Registry

_BUILT_IN = {
    "attention": "attnx.graph.edge_weights:ATTENTION",
    "effective": "attnx.graph.gradient:EFFECTIVE",
    "norm": "attnx.graph.decomposition:NORM",
    "norm_residual": "attnx.graph.decomposition:NORM_RESIDUAL",
    "globenc": "attnx.graph.decomposition:GLOBENC",
    "alti": "attnx.graph.decomposition:ALTI",
    "value_zeroing": "attnx.graph.value_zeroing:VALUE_ZEROING",
    "gradient": "attnx.graph.gradient:GRADIENT",
    "gradient_share": "attnx.graph.gradient:GRADIENT_SHARE",
    "gradient_signed": "attnx.graph.gradient:GRADIENT_SIGNED",
}
EDGE_WEIGHTS: Registry[EdgeWeights] = Registry("edge weight", "attnx.graph.edge_weights:EdgeWeights", _BUILT_IN)


Head: TypeAlias = int | Literal["all", "mean", "max", "min"]


@dataclass(frozen=True)
class Selection:
    """The layers and query positions to compute, and which axes the caller expects in the result."""

    layers: tuple[int, ...]
    positions: tuple[int, ...]
    down_to: int = 1
    """The layer whose input is the last axis; 1 is the model's input."""
    one_layer: bool = False
    one_position: bool = False

    @classmethod
    def of(
        cls,
        layers: int,
        length: int,
        *,
        layer: int | None = None,
        position: int | Sequence[int] | None = None,
        down_to: int = 1,
    ) -> Selection:
        """The selection in a graph of that many `layers` and positions; None selects all."""
        chosen = tuple(range(1, layers + 1)) if layer is None else (check_layer(layer, layers),)
        if not 1 <= down_to <= chosen[-1]:
            raise ChoiceError(f"down_to={down_to} was requested; it must be between 1 and the layer, {chosen[-1]}")
        return cls(
            layers=tuple(index for index in chosen if index >= down_to),
            positions=check_positions(position, length),
            down_to=down_to,
            one_layer=layer is not None,
            one_position=position is not None and not isinstance(position, Sequence),
        )

    @property
    def depths(self) -> tuple[int, ...]:
        """For each layer, how many layers lie between it and the input."""
        return tuple(layer - self.down_to + 1 for layer in self.layers)

    def all_of(self, length: int) -> bool:
        """Whether all positions are selected, in order."""
        return not self.one_position and self.positions == tuple(range(length))

    def shaped(self, relevance: Tensor, head: Head) -> Tensor:
        """layer × head × position × input reduced to the axes that the caller expects."""
        if self.one_position:
            relevance = relevance.squeeze(2)
        if head != "all":
            relevance = relevance.squeeze(1)
        return relevance.squeeze(0) if self.one_layer else relevance


def check_layer(layer: int, layers: int) -> int:
    layer = whole_number("layer", layer)
    if not 1 <= layer <= layers:
        raise ChoiceError(f"layer {layer} was requested, but the model has {layers} layers (1 is closest to the input)")
    return layer


def check_positions(position: Any, length: int) -> tuple[int, ...]:
    """The indices of one position, of several, or of all for None."""
    if position is None:
        return tuple(range(length))
    several = isinstance(position, Sequence) and not isinstance(position, str)
    if not several:
        return (check_position(position, length),)
    if not position:
        raise ChoiceError("the list of positions is empty; give at least one, or None for all")
    return tuple(check_position(index, length) for index in position)


def check_position(position: int, length: int) -> int:
    """The index from 0 of a position, which may be counted from the end as in Python (−1 is the last)."""
    position = whole_number("position", position)
    if not -length <= position < length:
        raise ChoiceError(
            f"position {position} was requested, but the input has {length} positions (0 to {length - 1}; "
            "−1 is the last)"
        )
    return position % length


def check_head_name(head: str) -> None:
    """Raise if a head is given by a name that does not exist."""
    if head not in ("all", "mean", "max", "min"):
        raise ChoiceError(f"head {head!r} is not known; give a number from 0, 'all', 'mean', 'max' or 'min'")


def check_head(head: Head | None, heads: int, merged: str | None) -> Head:
    """The head, or how heads are merged; None is how capture merged them, or else their mean."""
    if head is None:
        return cast(Head, merged or "mean")
    if isinstance(head, str):
        check_head_name(head)
    else:
        head = whole_number("head", head)
    if merged and head != merged:
        raise ChoiceError(
            f"head {head!r} was requested, but capture merged the heads ({merged}); capture with head=None"
        )
    if not isinstance(head, str) and not 0 <= head < heads:
        raise ChoiceError(f"head {head} was requested, but the model has {heads} heads (0 to {heads - 1})")
    return head


Residual: TypeAlias = Literal["share", "inside", "added"]
"""How edge weights treat the residual connection: mixed with the identity, (1 − r)·W + r·I; contained in W already; or
the identity is added and rows are left as they are."""


Forwards: TypeAlias = Callable[[int], float]
"""positions → cost in forward passes; a backward pass counts as one."""


def _one_run(positions: int) -> float:
    return 1.0


def _no_check(weights: Tensor, layer: int) -> None:
    """LayerWeights that may be anything."""


@dataclass(frozen=True)
class EdgeWeights:
    """A row of `EDGE_WEIGHTS`: a function from an attention layer to the weights of some of its queries."""

    name: str
    function: Callable[[AttentionLayer, int, int], RowBlock]
    """(layer, start, stop) → head × query × key for the queries from `start` up to `stop`."""
    together: Callable[[AttentionLayer, int, int], RowBlock] | None = None
    """The same for all heads together, 1 × query × key, where that is not the mean over heads."""
    left_product: Callable[[AttentionLayer, Tensor], Tensor | None] | None = None
    """(layer, vector × query) → vector × key: the product with the mean over heads where a layer can compute it without
    materializing its rows, which sum to 1 then."""
    needs: frozenset[str] = frozenset()
    """What `capture` must bring of each layer (`extras`); the keys of `AttentionLayer.captured`."""
    merges_first: bool = False
    """Whether capture may merge heads before these weights are computed: true of attention, which is linear."""
    residual: Residual = "share"
    per_head: bool = True
    """Whether the weights exist for each head."""
    signed: bool = False
    by_rows: bool = True
    """Whether single rows can be computed without the others."""
    supports_sequences: bool = True
    """Whether the weights are defined for encoder–decoders."""
    target_specific: bool = False
    """Whether the weights depend on the explained target; such a graph is built for each target."""
    check: Callable[[Tensor, int], None] = _no_check
    """Raises if the head × query × key of a layer is invalid."""
    fits: Callable[[Tensor], bool] | None = None
    """Whether layer × head × query × key is valid, checked for all layers at once."""
    paper: str = ""
    """Citation."""
    costs: str = "one run"
    """Cost in words, without what a method does with the edges."""
    forwards: Forwards | None = _one_run
    """Cost in forward passes; None if unknown."""
    seconds: Callable[[int], float] | None = None
    """width → seconds for an edge on one core, for expensive edge weights."""

    @property
    def about(self) -> str:
        """What the weights depend on."""
        return "the answer" if self.target_specific else "values" if self.needs else "attention"


ATTENTION = EdgeWeights(
    "attention",
    lambda layer, start, stop: layer.rows(start, stop),
    left_product=pulled,
    merges_first=True,
    check=check_attention,
    fits=is_attention,
    paper="Abnar & Zuidema 2020",
)


@dataclass(frozen=True, eq=False)
class LayerWeights:
    """The edge weights of one layer, heads merged or separate; checked and merged once."""

    layer: AttentionLayer
    number: int
    edge_weights: EdgeWeights
    head: Head
    checked: bool = False
    """Whether all layers have been checked together."""

    @property
    def length(self) -> int:
        return self.layer.mask.length

    @property
    def merger(self) -> HeadReduction:
        """How heads are merged below the layer of interest (Appendix A.1)."""
        return "mean" if isinstance(self.head, int) or self.head == "all" else self.head

    @property
    def is_merged(self) -> bool:
        return self.head == self.merger

    @property
    def query_slice(self) -> slice:
        """The queries that have weights; all others are carried."""
        return self.layer.query_slice

    @cached_property
    def whole(self) -> Tensor:
        """own query × key, heads merged, in float64."""
        if self.layer.whole:
            if self._together is not None:
                return self._of_own(self._together)[0].double()
            return merge_heads(self._heads.double(), self.merger)
        parts = [self.merged(start, stop) for start, stop in blocks(self.layer)]
        return torch.cat([pad_keys(part, self.length)[0] for part in parts])

    def _of_own(self, function: Callable[[AttentionLayer, int, int], RowBlock]) -> Tensor:
        """head × own query × key."""
        return pad_keys(function(self.layer, self.query_slice.start, self.query_slice.stop), self.length)

    def merged(self, start: int, stop: int) -> RowBlock:
        """Some rows with heads merged, 1 × query × key, in float64."""
        if self._together is not None:
            block = self._together(self.layer, start, stop)
            return RowBlock(block.first_key, block.weights.double())
        block = self._function(self.layer, start, stop)
        return RowBlock(block.first_key, merge_heads(block.weights, self.merger).double()[None])

    def left_product(self, vectors: Tensor) -> Tensor | None:
        """vectors · W in float64 where it can be computed without materializing W; else None."""
        if self.edge_weights.left_product is None or self.merger != "mean":
            return None
        return self.edge_weights.left_product(self.layer, vectors)

    @property
    def _together(self) -> Callable[[AttentionLayer, int, int], RowBlock] | None:
        return self.edge_weights.together if self.merger == "mean" and not self.layer.fixed else None

    @property
    def _function(self) -> Callable[[AttentionLayer, int, int], RowBlock]:
        """The function of these edge weights; a fixed map is used as it is."""
        return ATTENTION.function if self.layer.fixed else self.edge_weights.function

    def top_rows(self, positions: list[int] | None = None) -> Tensor:
        """head × position × key in the layer of interest: the selected head or heads (Appendix A.1), or all merged.

        Positions are of its own queries; None is all of those.
        """
        if not self.layer.whole:
            return self._top_rows_in_blocks(
                list(range(self.query_slice.start, self.query_slice.stop)) if positions is None else positions
            )
        rows = self.whole[None] if self.is_merged else self._selected_heads(self._heads)
        if positions is not None:
            rows = rows[:, [position - self.query_slice.start for position in positions]]
        return rows.double()

    def _top_rows_in_blocks(self, positions: list[int]) -> Tensor:
        """The same, each block with a selected position read once."""
        ordered = sorted(set(positions))
        parts = []
        for start, stop in blocks(self.layer):
            inside = [position for position in ordered if start <= position < stop]
            if inside:
                block = self._block(inside[0], inside[-1] + 1)
                parts.append(pad_keys(block, self.length)[:, [index - inside[0] for index in inside]].double())
        places = {position: place for place, position in enumerate(ordered)}
        return torch.cat(parts, dim=1)[:, [places[position] for position in positions]]

    def _block(self, start: int, stop: int) -> RowBlock:
        if self.is_merged:
            return self.merged(start, stop)
        block = self._function(self.layer, start, stop)
        return RowBlock(block.first_key, self._selected_heads(block.weights))

    def _selected_heads(self, heads: Tensor) -> Tensor:
        if not isinstance(self.head, int) or self.layer.fixed:
            return heads
        if self.head >= len(heads):
            raise ChoiceError(
                f"head {self.head} was requested, but layer {self.number} has {len(heads)} heads; choose another layer"
            )
        return heads[self.head : self.head + 1]

    @cached_property
    def _heads(self) -> Tensor:
        """head × computed query × key of a materialized layer, checked."""
        heads = self._of_own(self._function)
        if not self.checked and not self.layer.fixed:
            self.edge_weights.check(heads, self.number)
        return heads
