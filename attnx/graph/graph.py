"""The attention graph: a node for each position of each layer, edges from queries to the keys of the layer below.

It is built once for a call and shared by all methods. Methods differ in the share of the residual and in what is
discarded; `with_residual` sets both over the same checked and merged weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from attnx._signals import cached_property
from attnx.attention import AttentionLayer, Mask, UniformLayer, as_attention, causal_sequence, first_visible_position
from attnx.errors import ChoiceError
from attnx.graph.edge_weights import (
    ATTENTION,
    EDGE_WEIGHTS,
    EdgeWeights,
    Head,
    LayerWeights,
    check_head,
    check_position,
)
from attnx.graph.edges import Edges, Rules


def check_share(share: float) -> float:
    """The share of the weights to discard, if it is valid."""
    if not isinstance(share, (int, float)) or isinstance(share, bool) or not 0 <= share < 1:
        raise ChoiceError(f"discard_ratio must be at least 0 and less than 1, found {share!r}")
    return share


def check_residual(residual: float) -> float:
    """The share of the residual connection, if it is valid."""
    if not isinstance(residual, (int, float)) or not 0 <= residual <= 1:
        raise ChoiceError(f"residual must be between 0 and 1, found {residual!r}")
    return residual


@dataclass(frozen=True, eq=False)
class Graph:
    """The edges of every layer, from the input up."""

    layers: tuple[Edges, ...]
    rules: Rules
    head: Head
    """The single head of the layer of interest, "all", or how heads are merged."""
    edge_weights: EdgeWeights = ATTENTION
    sequences: Mapping[str, slice] = field(default_factory=dict)
    """The positions of each, where there are several."""

    @classmethod
    def of(
        cls,
        attention: Any,
        *,
        edge_weights: str | EdgeWeights = ATTENTION,
        head: Head | None = None,
        residual: float = 0.5,
        drop_sink: bool = False,
        column: bool = False,
        discard_ratio: float = 0.0,
        keep_position: int | None = 0,
    ) -> Graph:
        """The graph of an `AttentionTensor`, or of an array of layer × head × n × n.

        `head` is that of the layer of interest: a number, "all", or how heads are merged in every layer ("mean", "max",
        "min"). `residual` is the share of what stays where it is. `drop_sink` takes the first token of a decoder out as
        a key, `column` divides each column by the number of queries that see it, `discard_ratio` drops that share of
        the lowest weights, but none to the position `keep_position`.
        """
        attention = as_attention(attention)
        row = EDGE_WEIGHTS[edge_weights] if isinstance(edge_weights, str) else edge_weights
        head = check_head(head, attention.num_heads, attention.head)
        if not row.per_head and (isinstance(head, int) or head == "all"):
            raise ChoiceError(f"edge weights {row.name!r} exist for all heads together only, not for head={head!r}")
        if row.signed and head in ("max", "min"):
            raise ChoiceError(f"edge weights {row.name!r} are signed; head={head!r} would mix signs, use head='mean'")
        if attention.sequences and not row.supports_sequences:
            raise ChoiceError(
                f"edge weights {row.name!r} are defined for a single stack, not for an encoder–decoder; use 'alti'"
            )
        fits = row.fits is not None and attention.stacked is not None and row.fits(attention.stacked)
        weights = [
            LayerWeights(layer, number, row, head, fits) for number, layer in enumerate(attention.layers, start=1)
        ]
        keep_position = None if keep_position is None else check_position(keep_position, attention.length)
        rules = Rules(
            check_residual(residual), None, column, _check_discard(discard_ratio, attention.sequences), keep_position
        )
        graph = cls(_edges(weights, rules, attention.device), rules, head, row, attention.sequences)
        return graph._without_sink() if drop_sink else graph

    @property
    def depth(self) -> int:
        return len(self.layers)

    @property
    def length(self) -> int:
        return self.layers[0].weights.length

    @property
    def heads(self) -> int:
        """The number of heads of the layer of interest, 1 where they are merged."""
        return max(layer.heads for layer in self.attention_layers) if self.head == "all" else 1

    @property
    def device(self) -> torch.device:
        return self.layers[0].device

    @property
    def whole(self) -> bool:
        """Whether every layer is materialized."""
        return all(layer.whole for layer in self.attention_layers)

    @property
    def is_merged(self) -> bool:
        """Whether heads are merged in the layer of interest as in those below."""
        return not isinstance(self.head, int) and self.head != "all"

    @cached_property
    def causal(self) -> bool:
        """Whether no query of any layer sees a later position; False for an encoder–decoder."""
        return not self.sequences and all(layer.mask.causal for layer in self.attention_layers)

    @cached_property
    def causal_positions(self) -> slice | None:
        """The causal positions: all of a decoder, the decoder's of an encoder–decoder."""
        return causal_sequence(self.attention_layers, self.sequences)

    @property
    def sink_position(self) -> int:
        """The attention sink: the first position of a decoder, also within an encoder–decoder."""
        if self.sequences and self.causal_positions is not None:
            return int(self.causal_positions.start)
        return first_visible_position(self.visible_positions, causal=self.causal)

    @cached_property
    def visible_positions(self) -> Tensor:
        """Whether any query of any layer sees a position; those that none sees are padding."""
        masks = {id(layer.mask): layer.mask for layer in self.attention_layers}.values()
        return torch.stack([mask.queries_per_key.to(self.device) > 0 for mask in masks]).any(0)

    def with_residual(self, residual: float, discard_ratio: float = 0.0) -> Graph:
        """This graph with another share of the residual and another discard ratio."""
        rules = replace(
            self.rules, residual=check_residual(residual), discard_ratio=_check_discard(discard_ratio, self.sequences)
        )
        return self if rules == self.rules else self._with_rules(rules)

    def with_uniform_attention(self) -> Graph:
        """The graph of uniform attention behind the same masks."""
        even = {
            id(layer.mask): UniformLayer(layer.mask, layer.whole, layer.query_slice, kind=layer.kind)
            for layer in self.attention_layers
        }
        return self._uniform([layer if layer.fixed else even[id(layer.mask)] for layer in self.attention_layers])

    def with_full_visibility(self, last: int | None = None) -> Graph:
        """The graph of uniform attention without a mask: every query sees all positions, or all up to `last`."""
        shown = self.visible_positions.clone()
        if last is not None:
            shown[last + 1 : None if self.causal_positions is None else self.causal_positions.stop] = False
        mask = Mask(self.length, self.device, shown.expand(self.length, -1))
        if not self.sequences:
            return self._uniform([UniformLayer(mask, whole=self.whole)] * self.depth)
        return self._uniform([self._uniform_layer(layer, shown) for layer in self.attention_layers])

    @property
    def has_fixed_layers(self) -> bool:
        """Whether one sequence enters another through a fixed map, as an image enters a text."""
        return any(layer.fixed for layer in self.attention_layers)

    def _uniform_layer(self, layer: AttentionLayer, shown: Tensor) -> AttentionLayer:
        """Uniform attention over the whole sequence that a layer reads."""
        if layer.fixed:
            return layer
        seen = layer.mask.visible(layer.query_slice.start, layer.query_slice.stop).any(0) & shown
        visible = torch.eye(self.length, dtype=torch.bool, device=self.device)
        visible[layer.query_slice] = seen
        return UniformLayer(Mask(self.length, self.device, visible), layer.whole, layer.query_slice, kind=layer.kind)

    @property
    def attention_layers(self) -> list[AttentionLayer]:
        return [edges.weights.layer for edges in self.layers]

    def _with_rules(self, rules: Rules) -> Graph:
        return replace(self, layers=_edges([edges.weights for edges in self.layers], rules, self.device), rules=rules)

    def _without_sink(self) -> Graph:
        return self._with_rules(replace(self.rules, sink=self.sink_position))

    def _uniform(self, layers: Sequence[AttentionLayer]) -> Graph:
        rules = replace(self.rules, column=False, discard_ratio=0.0)
        weights = {
            id(layer): LayerWeights(layer, number, ATTENTION, "mean") for number, layer in enumerate(layers, start=1)
        }
        edges = _edges([weights[id(layer)] for layer in layers], rules, self.device)
        return Graph(edges, rules, "mean", sequences=self.sequences)


def _check_discard(discard_ratio: float, sequences: Mapping[str, slice]) -> float:
    if sequences and discard_ratio:
        raise ChoiceError("discard_ratio needs layers of n × n weights, which an encoder–decoder does not have")
    return check_share(discard_ratio)


def _edges(weights: list[LayerWeights], rules: Rules, device: torch.device) -> tuple[Edges, ...]:
    """The edges of each layer; layers with the same weights share one object, and with it a matrix."""
    made = {id(weight): Edges(weight, rules, device) for weight in weights}
    return tuple(made[id(weight)] for weight in weights)
