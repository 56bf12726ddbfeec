"""The minimum cut: the edges that hold a flow back. Max-flow = min-cut, so their capacities sum to its value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from attnx.errors import ChoiceError
from attnx.graph import Graph, Head, Selection, check_position
from attnx.methods.flow.flow import capacities_below, top_rows

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class CutEdge:
    """An edge of the bottleneck: in this layer, the capacity from a query position to a key position."""

    layer: int
    query: int
    key: int
    capacity: float


@dataclass(frozen=True)
class MinimumCut:
    """The bottleneck between one hidden position and one input position; of several, the one next to the source."""

    value: float
    edges: tuple[CutEdge, ...]

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers that have a part in the bottleneck, from the input up."""
        return tuple(sorted({edge.layer for edge in self.edges}))


def minimum_cut(
    attention: Any,
    *,
    layer: int,
    position: int,
    input_position: int,
    head: Head | None = None,
    residual: float = 0.5,
) -> MinimumCut:
    """The edges that no flow from (layer, position) to the input position can pass by; without them it is cut off.

    >>> minimum_cut(np.full((2, 1, 2, 2), 0.5), layer=2, position=0, input_position=1).layers
    (1, 2)
    """
    if head == "all":
        raise ChoiceError("a minimum cut is of one graph; give head as a number, or None for the mean of all heads")
    graph = Graph.of(attention, head=head, residual=residual)
    selection = Selection.of(graph.depth, graph.length, layer=layer, position=position)
    end = check_position(input_position, graph.length)
    edges = _cut_edges(
        capacities_below(graph, layer), top_rows(graph, selection, layer)[0], selection.positions[0], end
    )
    return MinimumCut(value=float(sum(edge.capacity for edge in edges)), edges=edges)


def _cut_edges(capacities: Array, row: Array, position: int, sink: int) -> tuple[CutEdge, ...]:
    """All edges from the source's side of the cut to the sink's side, the source's layer first."""
    height, length = len(capacities), len(row)
    target = np.arange(length) == sink
    seen = _source_side(capacities, row, sink) if height else np.empty((0, length), bool)
    sides = [~target, *seen, np.arange(length) == position]
    layers = [*capacities, np.where(np.arange(length)[:, None] == position, row, 0.0)]
    edges = []
    for layer in range(height + 1, 0, -1):
        cut = layers[layer - 1] * (sides[layer][:, None] & ~sides[layer - 1])
        edges += [CutEdge(layer, query, key, float(cut[query, key])) for query, key in np.argwhere(cut > 0).tolist()]
    return tuple(edges)


def _source_side(capacities: Array, row: Array, sink: int) -> Array:
    """layer × query: whether more flow could come from the source to here, once no more can reach the sink."""
    from attnx.methods.flow.solver import SWEEPS, ResidualGraph, Task

    height, length = len(capacities), len(row)
    no_bound = np.full((1, length), np.inf)
    task = Task(np.ascontiguousarray(capacities), row[None], np.array([height]), no_bound)
    return task.solve(ResidualGraph.of(task.capacities, sweeps=SWEEPS), sink, sink + 1).seen(height)
