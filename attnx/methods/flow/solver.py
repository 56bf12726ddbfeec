"""Many maximum flows through one stack of layers: bounds first, then the search, shared between threads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event, Lock
from typing import Any

import numpy as np

from attnx.methods.flow.bounds import chain_cuts, two_layer_flow
from attnx.methods.flow.machine_code import compiled_search
from attnx.methods.flow.residual_graph import ResidualGraph, dust

Array = np.ndarray[Any, np.dtype[np.float64]]
Index = np.ndarray[Any, np.dtype[np.int64]]

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
