"""Numbers as a page keeps them: rounded, packed, and the weakest left out so that it stays small and quick."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

ROW_BYTES = 1_400_000
"""For the rows of all results in a page; with the maps it stays below 3 MB."""
MAP_BYTES = 1_200_000
FEWEST_EDGES = 4
"""A map with fewer weights in each row would mislead; then there is none."""
_BYTES_A_WEIGHT, _BYTES_WITH_PLACE = 4 * 4 / 3, 6 * 4 / 3
"""Base64 makes four bytes of three."""


def kept_layers(layers: int, bytes_a_layer: float, results: int) -> list[int]:
    """Indices of the layers to show, evenly spread, the last always among them."""
    room = int(ROW_BYTES / results / bytes_a_layer)
    return spread(layers, min(layers, max(room, 2)))


def kept_edges(rows: int, length: int, room: float) -> int:
    """How many weights of each row there is room for in so many bytes: all, the strongest few, or none."""
    if rows * length * _BYTES_A_WEIGHT <= room:
        return length
    count = int(room / rows / _BYTES_WITH_PLACE)
    return count if count >= FEWEST_EDGES else 0


def kept_layers_and_edges(layers: int, rows: int, length: int, room: float) -> tuple[list[int], int]:
    """The same where layers may go as well: the few weights of a row that do not mislead, in as many as fit."""
    edges = kept_edges(layers * rows, length, room)
    if edges:
        return list(range(layers)), edges
    fewest = min(FEWEST_EDGES, length)
    return spread(layers, int(room / (rows * fewest * _BYTES_WITH_PLACE))), fewest


def spread(layers: int, count: int) -> list[int]:
    """So many indices of layers, evenly from the last to the first."""
    return sorted({round(index) for index in np.linspace(layers - 1, 0, count)})


def strongest(scores: Array, count: int) -> dict[str, str | None]:
    """The `count` largest in size of each row of layer × query × input, as base64 of float32 and of their places."""
    if count == scores.shape[-1]:
        return {"values": packed(scores, "<f4"), "places": None}
    places = _places(scores, count)
    return {"values": packed(np.take_along_axis(scores, places, -1), "<f4"), "places": packed(places, "<u2")}


def share_of_strongest(scores: Array, count: int) -> float:
    """What they hold of the whole, by size."""
    sizes = np.abs(scores)
    return float(np.take_along_axis(sizes, _places(scores, count), -1).sum() / max(sizes.sum(), 1e-12))


def _places(scores: Array, count: int) -> Array:
    """Where the largest in size stand, in the order of the input."""
    beyond = scores.shape[-1] - count
    return np.sort(np.argpartition(np.abs(scores), beyond, axis=-1)[..., beyond:], axis=-1)


def number(value: Any) -> float | None:
    """For JSON, which has no NaN."""
    return None if value is None or np.isnan(value) else round(float(value), 4)


def packed(numbers: Array, kind: str) -> str:
    return b64encode(np.ascontiguousarray(numbers, dtype=kind).tobytes()).decode()
