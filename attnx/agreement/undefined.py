"""Undefined agreement on disk: NaN is no JSON, so it is written as null."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]


def nulls_for_nan(values: Array) -> Any:
    """Nested lists with None where a number is undefined; `np.array(…, dtype=float)` turns it back.

    >>> nulls_for_nan(np.array([0.5, np.nan]))
    [0.5, None]
    """
    numbers = values.astype(object)
    numbers[np.isnan(values)] = None
    return numbers.tolist()
