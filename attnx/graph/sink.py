"""The attention sink: the first token of a decoder, which collects mass because attention must go somewhere.

A head with nothing to do gives its attention to the first position, the one that every query sees. That says nothing of
the token there. `drop_sink=True` hides the position as a key in every layer, before the residual: what went there goes
nowhere, as in models whose softmax has a sink of its own (gpt-oss), and the residual's part of the row grows.

Of an encoder–decoder it is the start of the output, to which the output's self-attention goes in the same way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attnx.attention.naming import DECODER, SELF
from attnx.attention.tensor import AttentionTensor, as_attention
from attnx.errors import ChoiceError
from attnx.graph.asked import Asked, Head
from attnx.graph.graph import Graph


def sink_share(attention: Any, *, layer: int | str | None = None, head: Head | None = None) -> Any:
    """The share of attention that goes to the first position, per layer: the mean over heads and over the later queries
    that see it.

    With `head="each"` it is layer × head. Spread evenly over n positions it would be the mean of 1/2, 1/3, … 1/n. Of an
    encoder–decoder the first position is that of the output, and levels that read the source alone give it nothing.

    >>> sink_share(np.array([[[[1.0, 0, 0], [0.9, 0.1, 0], [0.7, 0.2, 0.1]]]]))
    array([0.8])
    """
    tensor = as_attention(attention)
    if not tensor.whole:
        raise ChoiceError("the share of a sink needs attention held whole: attnx.capture(model, …)")
    graph = Graph.of(tensor, head=head, residual=0.0)
    number = None if layer is None else tensor.number(layer)
    asked = Asked.of(graph.depth, graph.length, layer=number, position=0)
    found = asked.shaped(torch.stack([_share(tensor, graph, one) for one in asked.layers])[..., None, None], graph.head)
    return found[..., 0].numpy() if isinstance(attention, np.ndarray) else found[..., 0]


def _share(attention: AttentionTensor, graph: Graph, number: int) -> Tensor:
    """One number, or one a head, of a level."""
    level, sink = attention.levels[number - 1], graph.first
    if level.kind and level.kind not in (SELF, DECODER):
        return torch.zeros(graph.heads, dtype=torch.float64)
    own = level.own
    seen = level.mask.visible(own.start, own.stop)[:, sink].clone()
    seen[sink - own.start] = False
    if not bool(seen.any()):
        raise ChoiceError(f"no later position sees position {sink}, so there is no sink; give a longer input")
    block = level.rows(own.start, own.stop)
    given = block.weights[:, seen, sink - block.first_key].double().mean(-1)
    if isinstance(graph.head, int):
        given = given[graph.head : graph.head + 1]
    if graph.head != "each":
        return given.mean(0, keepdim=True)
    return F.pad(given, (0, graph.heads - len(given)))  # an encoder may have more heads than its decoder
