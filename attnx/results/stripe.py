"""A stripe: rows of all written tokens that are nearly the same tell of the model, and not of any one token."""

from __future__ import annotations

import numpy as np

from attnx.results.remarks import Advice, Said
from attnx.results.result import Array

ALIKE = 0.95
"""A threshold of taste; the sentence has the number."""

_FEWEST = 3
"""Rows and columns of which likeness can be told."""


def likeness(rows: Array) -> float:
    """The mean cosine of each row with the sum of all others; NaN where there are few, or none has anything.

    >>> likeness(np.array([[1.0, 0, 2], [2, 0, 4], [3, 0, 6]])).round(6)
    np.float64(1.0)
    """
    sizes = np.linalg.norm(rows, axis=1)
    if min(rows.shape) < _FEWEST or not (sizes > 0).all():
        return float("nan")
    even = rows / sizes[:, None]
    others = even.sum(0) - even
    lengths = np.linalg.norm(others, axis=1)
    return float("nan") if not (lengths > 0).all() else float(((even * others).sum(1) / lengths).mean())


def stripe(name: str, rows: Array, *, about_answer: bool) -> tuple[Said, ...]:
    """What is to be said of a method whose rows, generated × prompt, are a stripe; nothing of another."""
    found = likeness(rows)
    if not found >= ALIKE:
        return ()
    advice = (
        Advice("contrast=True", "--contrast", "sets each token against its runner-up")
        if about_answer
        else Advice('references="value_path"', "--reference value_path", "asks what decided")
    )
    return (
        Said(
            "stripe",
            f"a stripe: the rows of all {len(rows)} tokens are nearly the same over the prompt (mean cosine "
            f"{found:.2f}), so they tell what every token mixes in, and not what one drew from",
            93,
            "care",
            advice=advice,
        ),
    )
