"""Upper bounds of flow that cost next to nothing: chain cuts, and the closed form of two layers.

A cut separates the source from the sink. The cheap ones stay in two columns of the graph: a chain down from the
source in its own column, or a chain up from the sink in its own. Where a flow reaches the best of them it is proven
to be maximal, and in deep models most flows do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
Index = np.ndarray[Any, np.dtype[np.int64]]


def two_layer_flow(rows: Array, first: Array) -> Array:
    """flow(s, t) = Σ_k min(A2[s, k], A1[k, t]), for rows[source, key] of layer 2 and the whole of layer 1."""
    return np.stack([np.minimum(row[:, None], first).sum(0) for row in rows])


def chain_cuts(capacities: Array, rows: Array, positions: Index) -> Array:
    """The least chain cut of each source and sink: source × sink.

    The sources are rows of one layer: `rows[source, key]` is the attention of the source at `positions[source]`, and
    `capacities[layer, query, key]` holds the layers below. With S the part of the graph on the source's side:

    - S is the source's column down to some layer: what leaves the column on the way, and all that leaves its end;
    - S is everything but the sink's column up to some layer: what enters the column, and all that enters its top;
    - S changes from the first kind to the second at some layer: there only the edge from source to sink is cut.
    """
    layers = len(capacities)
    leaves, own = _source_chain(capacities, rows, positions)
    enters, straight = _sink_chain(capacities, rows)
    best = np.broadcast_to(leaves[-1][:, None], rows.shape).copy()
    aside = np.zeros(len(rows))  # leaves the source's column above the layer at hand
    into = np.concatenate([np.zeros((1, *rows.shape)), np.cumsum(enters - straight, axis=0)])
    for layer in range(layers, -1, -1):
        np.minimum(best, (aside + leaves[layer])[:, None], out=best)
        across = rows if layer == layers else capacities[layer][positions]
        np.minimum(best, aside[:, None] + across + into[layer], out=best)
        aside = aside + leaves[layer] - own[layer]
    for layer in range(layers):
        np.minimum(best, into[layer] + enters[layer], out=best)
    return best


def _source_chain(capacities: Array, rows: Array, positions: Index) -> tuple[Array, Array]:
    """layer × source, the source's own layer last: all that leaves its column's node, and what stays in the column."""
    leaves = np.concatenate([capacities.sum(-1)[:, positions], rows.sum(-1)[None]])
    own = np.concatenate([capacities[:, positions, positions], rows[np.arange(len(rows)), positions][None]])
    return leaves, own


def _sink_chain(capacities: Array, rows: Array) -> tuple[Array, Array]:
    """layer × source × key: all that enters a key, and what comes from its own column.

    Only queries count that the source can reach; no other brings flow. In a causal model that is half of them.
    """
    enters = np.empty((len(capacities), *rows.shape))
    straight = np.empty_like(enters)
    reached = rows > 0
    for layer in range(len(capacities) - 1, -1, -1):
        edges = capacities[layer] > 0
        straight[layer] = np.where(reached, np.diagonal(capacities[layer]), 0)
        enters[layer] = capacities[layer].sum(0)
        below = np.broadcast_to(edges.any(0), rows.shape).copy()
        for source in np.flatnonzero(~reached.all(1)):
            enters[layer, source] = capacities[layer][reached[source]].sum(0)
            below[source] = edges[reached[source]].any(0)
        reached = below
    return enters, straight
