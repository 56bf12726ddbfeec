"""What one thread needs to search: the graph with what is left of each edge, and room for sweeps and one path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

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
    found: Array
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
            found=np.zeros((sweeps, floors, words), np.uint64),
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
        return len(self.found)

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
