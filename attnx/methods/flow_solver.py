"""Many maximum flows through one stack of layers: bounds first, then the search, shared between threads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event, Lock
from typing import Any

import numpy as np

from attnx.methods.flow_compile import compiled_search

Array = np.ndarray[Any, np.dtype[Any]]
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
    leaves, array = _source_chain(capacities, rows, positions)
    enters, straight = _sink_chain(capacities, rows)
    best = np.broadcast_to(leaves[-1][:, None], rows.shape).copy()
    aside = np.zeros(len(rows))  # leaves the source's column above the layer at hand
    into = np.concatenate([np.zeros((1, *rows.shape)), np.cumsum(enters - straight, axis=0)])
    for layer in range(layers, -1, -1):
        np.minimum(best, (aside + leaves[layer])[:, None], out=best)
        across = rows if layer == layers else capacities[layer][positions]
        np.minimum(best, aside[:, None] + across + into[layer], out=best)
        aside = aside + leaves[layer] - array[layer]
    for layer in range(layers):
        np.minimum(best, into[layer] + enters[layer], out=best)
    return best


def _source_chain(capacities: Array, rows: Array, positions: Index) -> tuple[Array, Array]:
    """layer × source, the source's own layer last: all that leaves its column's node, and what stays in the column."""
    leaves = np.concatenate([capacities.sum(-1)[:, positions], rows.sum(-1)[None]])
    array = np.concatenate([capacities[:, positions, positions], rows[np.arange(len(rows)), positions][None]])
    return leaves, array


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


DUST = 1e-10
"""What all edges of a graph together may hold back; an edge with less than its share left is full."""

ROUNDINGS = 4
"""How many sums and differences, rounded each, may lie between what is left of an edge and nothing."""


@dataclass(frozen=True, eq=False)
class ResidualGraph:
    """The arrays that `kernel.solve` works in, in the order of its arguments; their axes are told there."""

    left: Array
    down: Array
    up: Array
    useful: Array
    unseen: Array
    reachable: Array
    source: Array
    source_open: Array
    drain: Array
    drain_open: Array
    path_floor: Array
    path_node: Array
    path_ups: Array
    path_width: Array

    @classmethod
    def of(cls, capacities: Array, *, sweeps: int) -> ResidualGraph:
        """A graph without flow, for capacities[layer, query, key] and paths that go up fewer than `sweeps` times."""
        floors, length, _ = capacities.shape
        words = (length + 63) // 64
        down = _bits(capacities > dust(capacities), words)
        longest = floors * length + 1
        return cls(
            left=capacities.copy(),
            down=down,
            up=np.zeros_like(down),
            useful=np.zeros((floors, words), np.uint64),
            unseen=np.zeros((floors, words), np.uint64),
            reachable=np.zeros((sweeps, floors, words), np.uint64),
            source=np.zeros(length),
            source_open=np.zeros(words, np.uint64),
            drain=np.zeros(length),
            drain_open=np.zeros(words, np.uint64),
            path_floor=np.zeros(longest, np.int64),
            path_node=np.zeros(longest, np.int64),
            path_ups=np.zeros(longest, np.int64),
            path_width=np.zeros(longest),
        )

    @property
    def sweeps(self) -> int:
        return len(self.reachable)

    def addresses(self) -> tuple[int, ...]:
        return tuple(array.ctypes.data for array in vars(self).values())

    def seen(self, height: int) -> Array:
        """floor × node: on the source's side of the last cut, below a source that stands above `height` floors."""
        length = self.left.shape[-1]
        # A node that does not lead to the sink adds nothing to a cut on the source's side.
        seen = ~self.unseen[:height]
        return np.unpackbits(seen.view(np.uint8), axis=-1, bitorder="little")[:, :length].astype(bool)


def dust(capacities: Array) -> float:
    """What may be left of a full edge.

    In a large graph an edge's share is less than the rounding of its capacity. What rounding leaves must count as
    nothing, or a push fills no edge and the search goes round for ever.
    """
    floors: int
    length: int
    floors, length, _ = capacities.shape
    rounding = ROUNDINGS * np.finfo(np.float64).eps * float(capacities.max(initial=0.0))
    return max(DUST / (floors * length * length + 2 * length), rounding)


def _bits(members: Array, words: int) -> Array:
    """The last axis packed into words of 64 bits, the first member lowest."""
    padded = np.zeros((*members.shape[:-1], 64 * words), dtype=bool)
    padded[..., : members.shape[-1]] = members
    return np.packbits(padded, axis=-1, bitorder="little").view("<u8").astype(np.uint64)


PROOF = 1e-9
"""The widest gap between a flow and its cut that is still a proof. The searches end a thousand times below it."""

SWEEPS = 16
"""How often a path may go up before the search is given more room; attention needs four or five."""

EDGES_AT_ONCE = 50_000_000
"""How many edges to look at, about, before Python is asked whether to stop: some tenths of a second."""

EDGES_PER_THREAD = 5_000_000
"""Below this a second thread costs more than it brings."""


@dataclass(frozen=True, eq=False)
class Sources:
    """Hidden states of one layer. `rows[source, key]` is their attention there, `height` the number of layers below."""

    rows: Array
    positions: Index
    height: int


def maximum_flows(capacities: Array, groups: list[Sources], threads: int | None) -> list[Array]:
    """source × sink for each group, given capacities[layer, query, key] of all layers below the highest source."""
    answers = [_closed_form(capacities, group) for group in groups]
    searched = [index for index, answer in enumerate(answers) if answer is None]
    if searched:
        values = _search(capacities, [groups[index] for index in searched], threads)
        for index, value in zip(searched, values, strict=True):
            answers[index] = value
    return [answer for answer in answers if answer is not None]


def count_threads(threads: int | None, edges: float) -> int:
    """The number asked for; by default one per core, as far as the work is worth it."""
    if threads is None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return max(1, min(cores, int(edges / EDGES_PER_THREAD)))
    return threads


def _closed_form(capacities: Array, group: Sources) -> Array | None:
    if group.height == 0:
        return group.rows
    return two_layer_flow(group.rows, capacities[0]) if group.height == 1 else None


def _search(capacities: Array, groups: list[Sources], threads: int | None) -> list[Array]:
    task = Task(
        capacities=np.ascontiguousarray(capacities),
        rows=np.concatenate([group.rows for group in groups]),
        heights=np.concatenate([np.full(len(group.rows), group.height, np.int64) for group in groups]),
        bounds=np.concatenate(
            [chain_cuts(capacities[: group.height], group.rows, group.positions) for group in groups]
        ),
    )
    edges = float(task.heights.sum()) * task.length**3
    _run(task, count_threads(threads, edges))
    return np.split(task.values, np.cumsum([len(group.rows) for group in groups])[:-1])


class Task:
    """Pairs of source and sink, each with a bound, and the values that are found for them."""

    def __init__(self, capacities: Array, rows: Array, heights: Index, bounds: Array) -> None:
        self.capacities = capacities
        self.rows = np.ascontiguousarray(rows)
        self.heights = heights
        self.bounds = np.ascontiguousarray(bounds)
        self.values = np.empty_like(self.rows)
        self.length = rows.shape[-1]

    def chunks(self) -> Iterator[tuple[int, int]]:
        """Ranges of pairs, each short enough that Ctrl-C does not have to wait."""
        pairs = self.rows.size
        size = max(1, EDGES_AT_ONCE // self.capacities.size)
        return ((first, min(first + size, pairs)) for first in range(0, pairs, size))

    def solve(self, graph: ResidualGraph, first: int, last: int) -> ResidualGraph:
        """Solve a range of pairs in a thread's own graph; return the graph, a larger one if that was needed."""
        shared = (self.capacities, self.rows, self.heights, self.bounds, self.values)
        gap = compiled_search()(
            *(array.ctypes.data for array in shared),
            *(self.length, first, last, graph.sweeps, dust(self.capacities)),
            *graph.addresses(),
        )
        if gap < 0:
            return self.solve(ResidualGraph.of(self.capacities, sweeps=4 * graph.sweeps), first, last)
        if gap > PROOF:
            raise ArithmeticError(f"a flow and its cut differ by {gap:.3g}; please report this attention")
        return graph


def _run(task: Task, threads: int) -> None:
    """Let each thread take chunks until there are none. A pair is solved alone, so it does not matter by which."""
    stop = Event()
    lock = Lock()
    chunks = task.chunks()

    def next_chunk() -> tuple[int, int] | None:
        with lock:
            return None if stop.is_set() else next(chunks, None)

    def work() -> None:
        graph = ResidualGraph.of(task.capacities, sweeps=SWEEPS)
        while chunk := next_chunk():
            graph = task.solve(graph, *chunk)

    if threads == 1:
        return work()
    with ThreadPoolExecutor(threads, thread_name_prefix="attnx-flow") as pool:
        try:
            for worker in [pool.submit(work) for _ in range(threads)]:
                worker.result()
        finally:
            stop.set()
    return None
