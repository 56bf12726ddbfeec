"""Numbers as a page keeps them: rounded, packed, and the weakest left out so that it stays small and quick."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

ROW_BYTES = 1_400_000
"""For the rows of all results in a page; with the maps it stays below 3 MB."""
MAP_BYTES = 1_200_000
FEWEST_EDGES = 4
"""A map with fewer weights in each row would mislead; then there is none."""


def kept_layers(layers: int, bytes_a_layer: float, results: int) -> list[int]:
    """Indices of the layers to show, evenly spread, the last always among them."""
    room = int(ROW_BYTES / results / bytes_a_layer)
    count = min(layers, max(room, 2))
    return sorted({round(index) for index in np.linspace(layers - 1, 0, count)})


def kept_edges(maps: Mapping[str, Array], results: int) -> int:
    """How many weights of each row there is room for: all, the strongest few, or none."""
    layers, length, _ = next(iter(maps.values())).shape
    rows = len(maps) * layers * length
    room = MAP_BYTES / results / (4 / 3)
    if rows * length * 4 <= room:
        return int(length)
    count = int(room / rows / 6)
    return count if count >= FEWEST_EDGES else 0


def strongest(scores: Array, count: int) -> dict[str, str | None]:
    """The `count` largest weights of each row of layer × query × input, as base64 of float32 and of their places."""
    length = scores.shape[-1]
    if count == length:
        return {"values": packed(scores, "<f4"), "places": None}
    places = np.sort(np.argpartition(scores, length - count, axis=-1)[..., length - count :], axis=-1)
    return {"values": packed(np.take_along_axis(scores, places, -1), "<f4"), "places": packed(places, "<u2")}


def number(value: Any) -> float | None:
    """For JSON, which has no NaN."""
    return None if value is None or np.isnan(value) else round(float(value), 4)


def packed(numbers: Array, kind: str) -> str:
    return b64encode(np.ascontiguousarray(numbers, dtype=kind).tobytes()).decode()
