"""Attention flow by its definition: a networkx graph and one maximum flow for each input position.

Slow, and the oracle for everything that is fast.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnx.graph import capacity_graph

Array = np.ndarray[Any, np.dtype[np.float64]]


def flow_row(capacities: Array, position: int) -> list[float]:
    """Maximum flow from (top layer, `position`) to each input position, given capacities[layer, query, key]."""
    import networkx

    graph = capacity_graph(capacities)
    layers, length, _ = capacities.shape
    source = (layers, position)
    return [float(networkx.maximum_flow_value(graph, source, (0, key))) for key in range(length)]
