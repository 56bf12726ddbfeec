"""One blocking flow: sweeps that find how far each node is from the source, then pushes along the shortest paths.

A path that only goes down has one length; a longer one goes up on edges that carry flow already, to take that flow
back. So the length of a path is the number of times that it goes up, and the breadth-first search of Dinic becomes
sweeps from the top floor to the bottom: sweep k finds what needs k ups.
"""

from __future__ import annotations

from attnx.methods.flow.bitset import NONE, ONE, Pointer, bit, first, inner, least, lowest

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
    found: Pointer,
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
                found[here + word] = source_open[word] if floor == height - 1 and ups == 0 else NONE
            if floor < height - 1:
                _neighbours(down, (floor + 1) * length, words, found, here + words, here)
            if ups > 0 and floor > 0:
                _neighbours(up, floor * length, words, found, here - (height + 1) * words, here)
            for word in range(words):
                found[here + word] &= unseen[floor * words + word]
                unseen[floor * words + word] &= ~found[here + word]
                new |= found[here + word]
        bottom = ups * height * words
        reached = NONE
        for word in range(words):
            reached |= found[bottom + word] & drain_open[word]
        if reached != NONE:
            for word in range(words):
                found[bottom + word] &= drain_open[word]
            return ups
        if new == NONE:
            return -1
    return -2


@inner
def _neighbours(edges: Pointer, floor_start: int, words: int, found: Pointer, these: int, neighbours: int) -> None:
    """Add to one set of nodes all neighbours of another."""
    for word in range(words):
        bits = found[these + word]
        while bits != NONE:
            node = floor_start + (word << 6) + lowest(bits)
            bits &= bits - ONE
            for other in range(words):
                found[neighbours + other] |= edges[node * words + other]


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
    found: Pointer,
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
        root = first(found, top * words, words)
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
                    found[top * words + (root >> 6)] &= ~bit(root)
                    break
                if wanted - pushed <= PROVEN:
                    break
                width[0] = source[root]
                for step in range(1, end + 1):
                    width[step] = least(width[step], width[step - 1])
                continue
            here = (already * height + floor) * words
            if floor > 0:
                below = _pick(down, floor * length + node, found, here - words, words, node, sink)
                if below >= 0:
                    width[end + 1] = least(width[end], left[(floor * length + node) * length + below])
                    end += 1
                    floors[end] = floor - 1
                    nodes[end] = below
                    gone_up[end] = already
                    continue
            if floor < top and already < ups:
                above = _pick(up, (floor + 1) * length + node, found, here + (height + 1) * words, words, node, sink)
                if above >= 0:
                    edge = ((floor + 1) * length + above) * length + node
                    width[end + 1] = least(width[end], capacities[edge] - left[edge])
                    end += 1
                    floors[end] = floor + 1
                    nodes[end] = above
                    gone_up[end] = already + 1
                    continue
            found[here + (node >> 6)] &= ~bit(node)
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
def _pick(edges: Pointer, origin: int, found: Pointer, these: int, words: int, node: int, sink: int) -> int:
    """One of these nodes that an edge leads to, −1 if there is none.

    The node's own column comes first, then the sink's: with a residual, those edges are the wide ones.
    """
    if edges[origin * words + (node >> 6)] & found[these + (node >> 6)] & bit(node) != NONE:
        return node
    if edges[origin * words + (sink >> 6)] & found[these + (sink >> 6)] & bit(sink) != NONE:
        return sink
    for word in range(words):
        bits = edges[origin * words + word] & found[these + word]
        if bits != NONE:
            neighbour: int = (word << 6) + lowest(bits)
            return neighbour
    return -1
