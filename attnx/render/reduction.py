"""What is left of a large input in a view that has no room for all of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def strongest(scores: Sequence[float] | Array, most: int) -> list[int]:
    """Where the `most` largest scores stand, in the order of the input; of equals the earlier ones.

    >>> strongest([0.1, 0.4, 0.2, 0.4], 2)
    [1, 3]
    """
    order: list[int] = np.argsort(-np.asarray(scores, dtype=float), kind="stable")[:most].tolist()
    return sorted(order)


def reduction_note(kept: int, count: int, things: str) -> str:
    """A line that says what is missing; nothing when nothing is."""
    return f"the strongest {kept:,} of {count:,} {things}" if kept < count else ""
