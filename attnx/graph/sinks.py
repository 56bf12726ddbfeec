"""Attention sinks: the first token of a decoder, and patches that take far more than their share.

A trained vision tower may use a few patches, often of uniform background, to store global information (Darcet et al.
2024, "Vision transformers need registers"). All others attend to them, and rollout highlights them for any target.

The rule uses attention alone. A patch is a sink of a layer if the other patches give it at least ten times what uniform
attention would give it, on average over heads and over these patches. The model's own tokens, [CLS] and registers, are
left out. An object that every patch attends to for its content gets as much: the rule cannot tell it from a sink.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attnx.attention import DECODER, SELF, VISION, AttentionLayer, AttentionTensor, as_attention
from attnx.errors import ChoiceError
from attnx.graph.edge_weights import Head, Selection
from attnx.graph.graph import Graph


def sink_share(attention: Any, *, layer: int | str | None = None, head: Head | None = None) -> Any:
    """The share of attention that goes to the first position, per layer: the mean over heads and over the later queries
    that see it.

    With `head="all"` it is layer × head. Spread evenly over n positions it would be the mean of 1/2, 1/3, … 1/n. Of an
    encoder–decoder the first position is that of the output, and levels that read the source alone give it nothing.

    >>> sink_share(np.array([[[[1.0, 0, 0], [0.9, 0.1, 0], [0.7, 0.2, 0.1]]]]))
    array([0.8])
    """
    tensor = as_attention(attention)
    if not tensor.whole:
        raise ChoiceError("the share of a sink needs attention held whole: attnx.capture(model, …)")
    graph = Graph.of(tensor, head=head, residual=0.0)
    number = None if layer is None else tensor.number(layer)
    selection = Selection.of(graph.depth, graph.length, layer=number, position=0)
    shares = selection.shaped(
        torch.stack([_share(tensor, graph, index) for index in selection.layers])[..., None, None], graph.head
    )
    return shares[..., 0].numpy() if isinstance(attention, np.ndarray) else shares[..., 0]


def _share(attention: AttentionTensor, graph: Graph, number: int) -> Tensor:
    """One number, or one for each head, of a layer."""
    layer, sink = attention.layers[number - 1], graph.sink_position
    if layer.kind and layer.kind not in (SELF, DECODER):
        return torch.zeros(graph.heads, dtype=torch.float64)
    queries = layer.query_slice
    seen = layer.mask.visible(queries.start, queries.stop)[:, sink].clone()
    seen[sink - queries.start] = False
    if not bool(seen.any()):
        raise ChoiceError(f"no later position sees position {sink}, so there is no sink; give a longer input")
    block = layer.rows(queries.start, queries.stop)
    tensor = block.weights[:, seen, sink - block.first_key].double().mean(-1)
    if isinstance(graph.head, int):
        tensor = tensor[graph.head : graph.head + 1]
    if graph.head != "all":
        return tensor.mean(0, keepdim=True)
    return F.pad(tensor, (0, graph.heads - len(tensor)))  # an encoder may have more heads than its decoder


TIMES = 10.0
"""A sink gets at least this multiple of its share under uniform attention."""
_FEWEST = 4
"""With fewer patches none can stand out."""


@dataclass(frozen=True)
class PatchSink:
    """A patch that is a sink, in the layer where it gets the most."""

    position: int
    layer: int
    share: float
    """Its share of the attention of the other patches."""
    times: float
    """Its share divided by that under uniform attention."""


def patch_sinks(attention: AttentionTensor, patches: Sequence[int]) -> list[dict[int, PatchSink]]:
    """For each layer, from the input up, the sinks among the positions of patches."""
    if len(patches) < _FEWEST:
        return [{} for _ in attention.layers]
    return [_of_layer(layer, number, patches) for number, layer in enumerate(attention.layers, start=1)]


def _of_layer(layer: AttentionLayer, number: int, patches: Sequence[int]) -> dict[int, PatchSink]:
    if not layer.whole or layer.fixed or layer.kind not in ("", VISION):
        return {}
    shares, times = _taken(layer, torch.tensor(patches, device=layer.mask.device))
    indices = (times >= TIMES).nonzero()[:, 0].tolist()
    return {
        patches[place]: PatchSink(patches[place], number, float(shares[place]), float(times[place]))
        for place in indices
    }


def _taken(layer: AttentionLayer, patches: Tensor) -> tuple[Tensor, Tensor]:
    """For each patch the mean attention that it gets from others, and its multiple of uniform attention."""
    start, stop = layer.query_slice.start, layer.query_slice.stop
    block = layer.rows(start, stop)
    queries, keys = patches - start, patches - block.first_key
    weights = block.weights.mean(0).double()[queries][:, keys]
    visible = layer.mask.visible(start, stop)[queries]
    others = visible[:, patches] & ~torch.eye(len(patches), dtype=torch.bool, device=patches.device)
    seen = visible.sum(-1, keepdim=True).double()
    count = others.sum(0).clamp(min=1)
    return (weights * others).sum(0) / count, (weights * seen * others).sum(0) / count
