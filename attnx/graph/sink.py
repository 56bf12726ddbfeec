"""The attention sink: the first token of a decoder, which collects mass because attention must go somewhere.

A head with nothing to do gives its attention to the first position, the one that every query sees. That says nothing of
the token there. `drop_sink=True` hides the position as a key in every layer, before the residual: what went there goes
nowhere, as in models whose softmax has a sink of its own (gpt-oss), and the residual's part of the row grows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from attnx.attention.levels import all_keys
from attnx.attention.tensor import as_attention
from attnx.attention.visibility import first_seen
from attnx.errors import ChoiceError
from attnx.graph.asked import Asked, Head
from attnx.graph.graph import Graph


def sink_share(attention: Any, *, layer: int | None = None, head: Head | None = None) -> Any:
    """The share of attention that goes to the first position, per layer: the mean over heads and over the later queries
    that see it.

    With `head="each"` it is layer × head. Spread evenly over n positions it would be the mean of 1/2, 1/3, … 1/n.

    >>> sink_share(np.array([[[[1.0, 0, 0], [0.9, 0.1, 0], [0.7, 0.2, 0.1]]]]))
    array([0.8])
    """
    tensor = as_attention(attention)
    if not tensor.whole:
        raise ChoiceError("the share of a sink needs attention held whole: attnx.capture(model, …)")
    graph = Graph.of(tensor, head=head, residual=0.0)
    asked = Asked.of(graph.depth, graph.length, layer=layer, position=0)
    sink = first_seen(graph.seen, causal=graph.causal)
    shares = []
    for number in asked.layers:
        level = tensor.levels[number - 1]
        seen = level.mask.visible(0, graph.length)[:, sink].clone()
        seen[sink] = False
        if level.own != slice(0, graph.length) or not bool(seen.any()):
            raise ChoiceError(f"no later position sees position {sink}, so there is no sink; give a longer input")
        given = all_keys(level.rows(0, graph.length), graph.length)[:, seen, sink].double().mean(-1)
        if isinstance(graph.head, int):
            given = given[graph.head : graph.head + 1]
        shares.append(given if graph.head == "each" else given.mean(0, keepdim=True))
    found = asked.shaped(torch.stack(shares)[:, :, None, None], graph.head)[..., 0]
    return found.numpy() if isinstance(attention, np.ndarray) else found
