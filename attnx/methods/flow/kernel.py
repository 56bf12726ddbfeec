"""The compiled search: maximum flows through the layers, by blocking flows (Dinic) made for this graph.

The graph of one source and one sink is a stack of floors. Floor f holds the n hidden states above layer f + 1. The
source feeds the top floor by its own row of attention, layer f + 1 joins floor f to floor f − 1, and floor 0 drains
into the sink by one column of layer 1.

An edge with no more than `dust` left is full. A push fills at least one edge of its path, so each blocking flow ends,
and after it each path goes up more often than before: the search cannot go round on remainders of rounding. What all
full edges of a cut may still hold is next to nothing (`residual_graph.dust`), and each proof is measured.
"""

from __future__ import annotations

from numba import types

from attnx.methods.flow.bitset import NONE, ONE, Pointer, bit, inner, lowest
from attnx.methods.flow.blocking_flow import PROVEN, block, sweep

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
    found: Pointer,  # sweep × floor × word: nodes by the number of ups that they need
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
            ups = sweep(height, length, words, sweeps, down, up, useful, unseen, found, source_open, drain_open)
            if ups == -2:
                _close(capacities, height, length, words, left, down, up)
                return -1.0
            if ups == -1:
                bound = _cut(capacities, rows, row, sink, height, length, words, useful, unseen)
                gap = bound - flow if bound > flow else flow - bound
                widest = gap if gap > widest else widest
                break
            flow += block(
                capacities, height, length, words, sink, ups, bound - flow, dust, left, down, up, found,
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
