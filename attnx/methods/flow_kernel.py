"""The compiled search: maximum flows through the layers, by blocking flows (Dinic) made for this graph.

The graph of one source and one sink is a stack of floors. Floor f holds the n hidden states above layer f + 1. The
source feeds the top floor by its own row of attention, layer f + 1 joins floor f to floor f − 1, and floor 0 drains
into the sink by one column of layer 1.

An edge with no more than `dust` left is full. A push fills at least one edge of its path, so each blocking flow ends,
and after it each path goes up more often than before: the search cannot go round on remainders of rounding. What all
full edges of a cut may still hold is next to nothing (`residual_graph.dust`), and each proof is measured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

Pointer = Any
Function = TypeVar("Function", bound=Callable[..., Any])

NONE = np.uint64(0)
ONE = np.uint64(1)


def inner(function: Function) -> Function:
    """A part of the search. It is never called from Python, and all parts become one function of machine code."""
    options = {"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "error_model": "numpy"}
    part: Function = njit(**options)(function)
    return part


@inner
def bit(node: int) -> Any:
    """The set of one node, within its word."""
    return ONE << np.uint64(node & 63)


def _lowest(typing: Any, word: Any) -> Any:
    def count_trailing_zeros(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], context.get_constant(types.boolean, 0))

    return types.int64(types.uint64), count_trailing_zeros


lowest: Any = intrinsic(_lowest)
"""The lowest node of a word that is not empty: one machine instruction, which numba does not offer by itself."""


@inner
def first(reachable: Pointer, these: int, words: int) -> int:
    """The lowest node of a set, −1 if it is empty."""
    for word in range(words):
        if reachable[these + word] != NONE:
            node: int = (word << 6) + lowest(reachable[these + word])
            return node
    return -1


@inner
def least(value: float, other: float) -> float:
    return value if value < other else other


PROVEN = 1e-10
"""A flow that comes this near to a cut has proven it; the capacity of the cut is the value."""


@inner
def sweep(
    height: int,
    length: int,
    words: int,
    sweeps: int,
    down: Pointer,
    up: Pointer,
    useful: Pointer,
    unseen: Pointer,
    reachable: Pointer,
    source_open: Pointer,
    drain_open: Pointer,
) -> int:
    """The least number of ups on a path to the sink, −1 if there is no path, −2 if there are too few sweeps."""
    for word in range(height * words):
        unseen[word] = useful[word]
    for ups in range(sweeps):
        new = NONE
        for floor in range(height - 1, -1, -1):
            here = (ups * height + floor) * words
            for word in range(words):
                reachable[here + word] = source_open[word] if floor == height - 1 and ups == 0 else NONE
            if floor < height - 1:
                _neighbours(down, (floor + 1) * length, words, reachable, here + words, here)
            if ups > 0 and floor > 0:
                _neighbours(up, floor * length, words, reachable, here - (height + 1) * words, here)
            for word in range(words):
                reachable[here + word] &= unseen[floor * words + word]
                unseen[floor * words + word] &= ~reachable[here + word]
                new |= reachable[here + word]
        bottom = ups * height * words
        reached = NONE
        for word in range(words):
            reached |= reachable[bottom + word] & drain_open[word]
        if reached != NONE:
            for word in range(words):
                reachable[bottom + word] &= drain_open[word]
            return ups
        if new == NONE:
            return -1
    return -2


@inner
def _neighbours(edges: Pointer, floor_start: int, words: int, reachable: Pointer, these: int, neighbours: int) -> None:
    """Add to one set of nodes all neighbours of another."""
    for word in range(words):
        bits = reachable[these + word]
        while bits != NONE:
            node = floor_start + (word << 6) + lowest(bits)
            bits &= bits - ONE
            for other in range(words):
                reachable[neighbours + other] |= edges[node * words + other]


@inner
def block(
    capacities: Pointer,
    height: int,
    length: int,
    words: int,
    sink: int,
    ups: int,
    wanted: float,
    dust: float,
    left: Pointer,
    down: Pointer,
    up: Pointer,
    reachable: Pointer,
    source: Pointer,
    source_open: Pointer,
    drain: Pointer,
    drain_open: Pointer,
    floors: Pointer,
    nodes: Pointer,
    gone_up: Pointer,
    width: Pointer,
) -> float:
    """Push along paths with that many ups until each is blocked, or as much as is wanted is pushed."""
    top = height - 1
    pushed = 0.0
    while wanted - pushed > PROVEN:
        root = first(reachable, top * words, words)
        if root < 0:
            break
        end = 0
        floors[0] = top
        nodes[0] = root
        gone_up[0] = 0
        width[0] = source[root]
        while end >= 0:
            floor = floors[end]
            node = nodes[end]
            already = gone_up[end]
            if floor == 0 and already == ups and drain[node] > dust:
                amount = least(width[end], drain[node])
                pushed += amount
                drain[node] -= amount
                if drain[node] <= dust:
                    drain[node] = 0.0
                    drain_open[node >> 6] &= ~bit(node)
                end = _push(capacities, length, words, left, down, up, floors, nodes, width, end, amount, dust)
                source[root] -= amount
                if source[root] <= dust:
                    source[root] = 0.0
                    source_open[root >> 6] &= ~bit(root)
                    reachable[top * words + (root >> 6)] &= ~bit(root)
                    break
                if wanted - pushed <= PROVEN:
                    break
                width[0] = source[root]
                for step in range(1, end + 1):
                    width[step] = least(width[step], width[step - 1])
                continue
            here = (already * height + floor) * words
            if floor > 0:
                below = _pick(down, floor * length + node, reachable, here - words, words, node, sink)
                if below >= 0:
                    width[end + 1] = least(width[end], left[(floor * length + node) * length + below])
                    end += 1
                    floors[end] = floor - 1
                    nodes[end] = below
                    gone_up[end] = already
                    continue
            if floor < top and already < ups:
                above = _pick(
                    up, (floor + 1) * length + node, reachable, here + (height + 1) * words, words, node, sink
                )
                if above >= 0:
                    edge = ((floor + 1) * length + above) * length + node
                    width[end + 1] = least(width[end], capacities[edge] - left[edge])
                    end += 1
                    floors[end] = floor + 1
                    nodes[end] = above
                    gone_up[end] = already + 1
                    continue
            reachable[here + (node >> 6)] &= ~bit(node)
            end -= 1
    return pushed


@inner
def _push(
    capacities: Pointer,
    length: int,
    words: int,
    left: Pointer,
    down: Pointer,
    up: Pointer,
    floors: Pointer,
    nodes: Pointer,
    width: Pointer,
    end: int,
    amount: float,
    dust: float,
) -> int:
    """Push an amount along the path; note what is left of each edge, and return the end of the part still open."""
    still_open = end
    for step in range(end, 0, -1):
        node = nodes[step - 1]
        other = nodes[step]
        floor = floors[step - 1]
        if floors[step] < floor:
            edge = (floor * length + node) * length + other
            rest = left[edge] - amount
            if rest <= dust:
                rest = 0.0
                down[(floor * length + node) * words + (other >> 6)] &= ~bit(other)
                still_open = step - 1
            left[edge] = rest
            up[(floor * length + other) * words + (node >> 6)] |= bit(node)
        else:
            floor += 1
            edge = (floor * length + other) * length + node
            rest = capacities[edge] - left[edge] - amount
            if rest <= dust:
                rest = 0.0
                up[(floor * length + node) * words + (other >> 6)] &= ~bit(other)
                still_open = step - 1
                left[edge] = capacities[edge]
            else:
                left[edge] += amount
            down[(floor * length + other) * words + (node >> 6)] |= bit(node)
        width[step] = rest
    return still_open


@inner
def _pick(edges: Pointer, origin: int, reachable: Pointer, these: int, words: int, node: int, sink: int) -> int:
    """One of these nodes that an edge leads to, −1 if there is none.

    The node's own column comes first, then the sink's: with a residual, those edges are the wide ones.
    """
    if edges[origin * words + (node >> 6)] & reachable[these + (node >> 6)] & bit(node) != NONE:
        return node
    if edges[origin * words + (sink >> 6)] & reachable[these + (sink >> 6)] & bit(sink) != NONE:
        return sink
    for word in range(words):
        bits = edges[origin * words + word] & reachable[these + word]
        if bits != NONE:
            neighbour: int = (word << 6) + lowest(bits)
            return neighbour
    return -1


_numbers = types.CPointer(types.float64)
_words = types.CPointer(types.uint64)
_integers = types.CPointer(types.int64)

SIGNATURE = types.float64(
    *[_numbers, _numbers, _integers, _numbers, _numbers],
    *[types.int64, types.int64, types.int64, types.int64, types.float64],
    *[_numbers, _words, _words, _words, _words, _words, _numbers, _words, _numbers, _words],
    *[_integers, _integers, _integers, _numbers],
)


def solve(
    capacities: Pointer,  # floor × node × node
    rows: Pointer,  # row × node: attention of the source
    heights: Pointer,  # row: how many floors the source stands above
    bounds: Pointer,  # row × sink: the capacity of some cut
    values: Pointer,  # row × sink: to be filled
    length: int,
    first: int,
    last: int,
    sweeps: int,
    dust: float,
    left: Pointer,  # floor × node × node: capacity that is not used yet
    down: Pointer,  # floor × node × word: edges to the floor below with something left
    up: Pointer,  # floor × node × word: edges from this floor that bring flow to a node of the floor below
    useful: Pointer,  # floor × word: nodes from which the sink can be reached at all
    unseen: Pointer,  # floor × word: useful nodes that no sweep has found
    reachable: Pointer,  # sweep × floor × word: nodes by the number of ups that they need
    source: Pointer,  # node: left of the edges out of the source
    source_open: Pointer,  # word
    drain: Pointer,  # node: left of the edges into the sink
    drain_open: Pointer,  # word
    path_floor: Pointer,
    path_node: Pointer,
    path_ups: Pointer,
    path_width: Pointer,  # the least that is left on the path down to here
) -> float:
    """Fill values[row, sink] for the pairs first ≤ row · n + sink < last; return the widest gap of a proof.

    The search ends when it reaches the cut that it was given, or finds a lower one. Returns −1 where a path has to go
    up more often than there are sweeps.
    """
    words = (length + 63) >> 6
    widest = 0.0
    for pair in range(first, last):
        row = pair // length
        sink = pair - row * length
        height = heights[row]
        _open(
            capacities, rows, row, sink, height, length, words, dust,
            down, useful, source, source_open, drain, drain_open,
        )  # fmt: skip
        bound = bounds[pair]
        flow = 0.0
        while bound - flow > PROVEN:
            ups = sweep(height, length, words, sweeps, down, up, useful, unseen, reachable, source_open, drain_open)
            if ups == -2:
                _close(capacities, height, length, words, left, down, up)
                return -1.0
            if ups == -1:
                bound = _cut(capacities, rows, row, sink, height, length, words, useful, unseen)
                gap = bound - flow if bound > flow else flow - bound
                widest = gap if gap > widest else widest
                break
            flow += block(
                capacities, height, length, words, sink, ups, bound - flow, dust, left, down, up, reachable,
                source, source_open, drain, drain_open, path_floor, path_node, path_ups, path_width,
            )  # fmt: skip
        values[pair] = bound
        _close(capacities, height, length, words, left, down, up)
    return widest


@inner
def _open(
    capacities: Pointer,
    rows: Pointer,
    row: int,
    sink: int,
    height: int,
    length: int,
    words: int,
    dust: float,
    down: Pointer,
    useful: Pointer,
    source: Pointer,
    source_open: Pointer,
    drain: Pointer,
    drain_open: Pointer,
) -> None:
    """Set up the source's row and the sink's column, and mark the nodes that lead to the sink."""
    for word in range(words):
        source_open[word] = NONE
        drain_open[word] = NONE
    for word in range(height * words):
        useful[word] = NONE
    for node in range(length):
        drain[node] = capacities[node * length + sink]
        if drain[node] > dust:
            drain_open[node >> 6] |= bit(node)
            useful[node >> 6] |= bit(node)
    for floor in range(1, height):
        for node in range(length):
            for word in range(words):
                if down[(floor * length + node) * words + word] & useful[(floor - 1) * words + word] != NONE:
                    useful[floor * words + (node >> 6)] |= bit(node)
                    break
    for node in range(length):
        source[node] = rows[row * length + node]
        if source[node] > dust:
            source_open[node >> 6] |= useful[(height - 1) * words + (node >> 6)] & bit(node)


@inner
def _close(
    capacities: Pointer, height: int, length: int, words: int, left: Pointer, down: Pointer, up: Pointer
) -> None:
    """Take all flow back. An edge carries flow exactly where its `up` bit is set."""
    for floor in range(1, height):
        for node in range(length):
            for word in range(words):
                bits = up[(floor * length + node) * words + word]
                up[(floor * length + node) * words + word] = NONE
                while bits != NONE:
                    above = floor * length + (word << 6) + lowest(bits)
                    bits &= bits - ONE
                    left[above * length + node] = capacities[above * length + node]
                    down[above * words + (node >> 6)] |= bit(node)


@inner
def _cut(
    capacities: Pointer,
    rows: Pointer,
    row: int,
    sink: int,
    height: int,
    length: int,
    words: int,
    useful: Pointer,
    unseen: Pointer,
) -> float:
    """The capacity of the edges from what the last sweeps found to what they did not find."""
    capacity = 0.0
    top = (height - 1) * words
    for node in range(length):
        if unseen[top + (node >> 6)] & bit(node) != NONE:
            capacity += rows[row * length + node]
    for node in range(length):
        if useful[node >> 6] & ~unseen[node >> 6] & bit(node) != NONE:
            capacity += capacities[node * length + sink]
    for above in range(length, height * length):
        floor = above // length
        node = above - floor * length
        word = floor * words + (node >> 6)
        if useful[word] & ~unseen[word] & bit(node) != NONE:
            for below in range(words):
                bits = unseen[(floor - 1) * words + below]
                while bits != NONE:
                    capacity += capacities[above * length + (below << 6) + lowest(bits)]
                    bits &= bits - ONE
    return capacity
