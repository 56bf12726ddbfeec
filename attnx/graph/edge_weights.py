"""What an edge weighs: a weighting makes of a level the weights of some queries. It is a row of `EDGE_WEIGHTS`."""

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
    """The layers and positions that an answer is about, and the axes that the caller does not want to see."""

    layers: tuple[int, ...]
    positions: tuple[int, ...]
    down_to: int = 1
    """The layer whose input the last axis is: 1 for the model's own."""
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
        """Of a graph with so many layers and positions; None is all of them."""
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
        """For each layer, through how many an answer goes."""
        return tuple(layer - self.down_to + 1 for layer in self.layers)

    def all_of(self, length: int) -> bool:
        """Whether every position is asked for, in order."""
        return not self.one_position and self.positions == tuple(range(length))

    def shaped(self, relevance: Tensor, head: Head) -> Tensor:
        """Of layer × head × position × input the axes that the caller expects."""
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
    """One position, several, or None for all; a text is a sequence, too, and no list of positions."""
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
    """A head that is a word."""
    if head not in ("all", "mean", "max", "min"):
        raise ChoiceError(f"head {head!r} is not known; give a number from 0, 'all', 'mean', 'max' or 'min'")


def check_head(head: Head | None, heads: int, merged: str | None) -> Head:
    """The head or merger that is asked for; None is how they were merged as they arrived, or their mean."""
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
"""How a weighting stands to the residual connection: W is mixed with the identity by a share, (1 − r)·W + r·I; or the
residual is contained in W already; or the identity is added and rows are left as they are."""


Forwards: TypeAlias = Callable[[int], float]
"""positions → how many plain forwards of such an input it takes. A way back counts as one."""


def _one_run(positions: int) -> float:
    return 1.0


def _no_check(weights: Tensor, layer: int) -> None:
    """LayerWeights that may be anything."""


@dataclass(frozen=True)
class EdgeWeights:
    """What an edge of the graph weighs."""

    name: str
    function: Callable[[AttentionLayer, int, int], RowBlock]
    """(layer, start, stop) → head × query × key for the queries from `start` up to `stop`."""
    together: Callable[[AttentionLayer, int, int], RowBlock] | None = None
    """The same of all heads, 1 × query × key, where that is not the mean of their weights."""
    left_product: Callable[[AttentionLayer, Tensor], Tensor | None] | None = None
    """(layer, vector × query) → vector × key: their product with the mean of all heads, where a level can tell it
    without its rows, each of which must sum to 1 then."""
    needs: frozenset[str] = frozenset()
    """What capturing must bring of each level: the keys of `AttentionLayer.captured`, and the `extras` of `capture`."""
    merges_first: bool = False
    """Whether heads may be merged as they arrive, before the weighting is asked: so for attention, which is linear."""
    residual: Residual = "share"
    per_head: bool = True
    """Whether single heads have weights of their own; a weighting of all heads together gives one."""
    signed: bool = False
    by_rows: bool = True
    """Whether some rows can be had without the others."""
    supports_sequences: bool = True
    """Whether it is defined where a level writes one of several streams, and carries the others as they are."""
    target_specific: bool = False
    """Whether the weights depend on what is explained of the answer: such a graph is made for each target."""
    check: Callable[[Tensor, int], None] = _no_check
    """Raises if head × query × key of a level is not what it must be."""
    fits: Callable[[Tensor], bool] | None = None
    """Whether layer × head × query × key is what it must be, where that can be told of all levels at once."""
    paper: str = ""
    """Where the edges are from."""
    costs: str = "one run"
    """Beside what a method does with the edges, in words."""
    forwards: Forwards | None = _one_run
    """The same as a number; None where the row does not say."""
    seconds: Callable[[int], float] | None = None
    """width of the stream → what an edge takes on one core, where all of them may take more than a moment."""

    @property
    def about(self) -> str:
        """What an edge knows of."""
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
    """The weights of one level as a weighting gives them: heads merged, or by themselves. Checked and merged once."""

    layer: AttentionLayer
    number: int
    edge_weights: EdgeWeights
    head: Head
    checked: bool = False
    """Whether all levels were looked at together, and fit."""

    @property
    def length(self) -> int:
        return self.layer.mask.length

    @property
    def merger(self) -> HeadReduction:
        """How heads are merged in levels below the one of interest (Appendix A.1)."""
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
        """Some rows with heads merged: 1 × query × key, in float64."""
        if self._together is not None:
            block = self._together(self.layer, start, stop)
            return RowBlock(block.first_key, block.weights.double())
        block = self._function(self.layer, start, stop)
        return RowBlock(block.first_key, merge_heads(block.weights, self.merger).double()[None])

    def left_product(self, vectors: Tensor) -> Tensor | None:
        """vectors · W, in float64, where it can be had without rows of W; these sum to 1."""
        if self.edge_weights.left_product is None or self.merger != "mean":
            return None
        return self.edge_weights.left_product(self.layer, vectors)

    @property
    def _together(self) -> Callable[[AttentionLayer, int, int], RowBlock] | None:
        return self.edge_weights.together if self.merger == "mean" and not self.layer.fixed else None

    @property
    def _function(self) -> Callable[[AttentionLayer, int, int], RowBlock]:
        """The weighting's own, but for a map that is what it is."""
        return ATTENTION.function if self.layer.fixed else self.edge_weights.function

    def top_rows(self, positions: list[int] | None = None) -> Tensor:
        """head × position × key in the level of interest: the asked head or heads (Appendix A.1), or their merger.

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
        """The same, each block that holds an asked position read once."""
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
        """head × own query × key of a level that is held, checked."""
        heads = self._of_own(self._function)
        if not self.checked and not self.layer.fixed:
            self.edge_weights.check(heads, self.number)
        return heads
