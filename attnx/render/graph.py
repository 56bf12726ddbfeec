"""The attention graph as networkx sees it, for the reader's own algorithms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attnx.errors import InputError
from attnx.methods.choices import Head
from attnx.methods.flow.reference import capacity_graph
from attnx.methods.question import Attention, Question


def to_networkx(
    attention: Attention,
    tokens: Sequence[str] | None = None,
    *,
    head: Head | None = None,
    residual: float = 0.5,
) -> Any:
    """The graph that `flow` runs on: a `networkx.DiGraph` with a node (layer, position) for each hidden state.

    Layer 0 holds the inputs. A node has the attributes `layer`, `position` and `token`, an edge from a query to a key
    of the layer below has its `capacity`. Edges of no capacity are left out. With a `head` number that head alone is
    the top layer, as in `flow`.

    >>> graph = to_networkx(np.full((1, 1, 2, 2), 0.5), ["the", "key"])
    >>> graph.nodes[0, 1]
    {'layer': 0, 'position': 1, 'token': 'key'}
    >>> graph.edges[(1, 0), (0, 1)]
    {'capacity': 0.25}
    """
    if head == "each":
        raise InputError("a graph has one edge between two nodes; give head as a number, or None for the mean of all")
    question = Question.ask(attention, layer=None, position=None, head=head, residual=residual)
    labels = [str(position) for position in range(question.length)] if tokens is None else list(tokens)
    if len(labels) != question.length:
        raise InputError(f"{question.length} tokens expected, one for each position, {len(labels)} found")
    capacities = question.below.detach().clone()
    capacities[-1] = question.top(max(question.layers))[0]
    graph = capacity_graph(capacities.cpu().numpy())
    for layer, position in graph.nodes:
        graph.nodes[layer, position].update(layer=layer, position=position, token=labels[position])
    return graph
