"""The graph as networkx sees it, for the reader's own algorithms, and for the definition of flow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from attnx.errors import InputError
from attnx.graph.edge_weights import Head
from attnx.graph.graph import Graph


def to_networkx(
    attention: Any,
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
    if head == "all":
        raise InputError("a graph has one edge between two nodes; give head as a number, or None for the mean of all")
    graph = Graph.of(attention, head=head, residual=residual)
    labels = [str(position) for position in range(graph.length)] if tokens is None else list(tokens)
    if len(labels) != graph.length:
        raise InputError(f"expected {graph.length} tokens, one for each position, found {len(labels)}")
    capacities = torch.stack([*(edges.matrix for edges in graph.layers[:-1]), graph.layers[-1].top()[0]])
    exported = capacity_graph(capacities.detach().cpu().numpy())
    for layer, position in exported.nodes:
        exported.nodes[layer, position].update(layer=layer, position=position, token=labels[position])
    return exported


def capacity_graph(capacities: np.ndarray[Any, np.dtype[np.float64]]) -> Any:
    """A networkx.DiGraph with a node (layer, position) for each hidden state, inputs at layer 0.

    An edge leads from a query to a key of the layer below, with its `capacity`; edges of no capacity are left out.
    """
    import networkx

    graph = networkx.DiGraph()
    layers, length, _ = capacities.shape
    graph.add_nodes_from((layer, position) for layer in range(layers + 1) for position in range(length))
    for layer in range(layers):
        for query, key in np.argwhere(capacities[layer] > 0).tolist():
            graph.add_edge((layer + 1, query), (layer, key), capacity=float(capacities[layer, query, key]))
    return graph
