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

    graph = networkx.DiGraph()
    layers, length, _ = capacities.shape
    for layer in range(layers):
        for query, key in np.argwhere(capacities[layer] > 0).tolist():
            graph.add_edge((layer + 1, query), (layer, key), capacity=float(capacities[layer, query, key]))
    source = (layers, position)
    return [
        networkx.maximum_flow_value(graph, source, (0, key))
        if graph.has_node((0, key)) and graph.has_node(source)
        else 0.0
        for key in range(length)
    ]
