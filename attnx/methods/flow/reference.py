"""Attention flow by its definition: a networkx graph and one maximum flow for each input position.

Slow, and the oracle for everything that is fast.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]


def flow_row(capacities: Array, position: int) -> list[float]:
    """Maximum flow from (top layer, `position`) to each input position, given capacities[layer, query, key]."""
    import networkx

    graph = capacity_graph(capacities)
    layers, length, _ = capacities.shape
    source = (layers, position)
    return [float(networkx.maximum_flow_value(graph, source, (0, key))) for key in range(length)]


def capacity_graph(capacities: Array) -> Any:
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
