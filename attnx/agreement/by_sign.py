"""Agreement where scores may say for or against: with their signs only where both of the two have one.

What has no sign knows how much, not which way. Beside it a sign is no disagreement, so the two are compared by size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]


def agree(measure: Callable[[Array, Array], Array], own: Array, other: Array, *, both_signed: bool) -> Array:
    """`measure` of each row of `own[…, position]` with `other[position]`, NaN where it is undefined.

    >>> from attnx.agreement.spearman import spearman
    >>> own, other = np.array([-3.0, 1.0, 2.0]), np.array([3.0, 1.0, 2.0])
    >>> agree(spearman, own, other, both_signed=False), agree(spearman, own, other, both_signed=True)
    (array(1.), array(-0.5))
    """
    return measure(own, other) if both_signed else measure(np.abs(own), np.abs(other))
