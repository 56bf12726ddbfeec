"""A column of numbers in one cell of a table: mean, spread, interval, and what had to be left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from attnx.agreement.bootstrap import bootstrap_interval

Array = np.ndarray[Any, np.dtype[np.float64]]
Undefined = Literal["left out", "zero"]


@dataclass(frozen=True)
class Summary:
    """Mean and population standard deviation over `count` examples, with the 95 % interval of the mean."""

    mean: float | None
    """None when no example has a number."""
    deviation: float | None
    low: float | None
    high: float | None
    count: int
    undefined: int
    """Examples without a number: left out of the mean, or counted as zero where `of` was told so."""

    @classmethod
    def of(cls, values: Array, *, undefined: Undefined = "left out", seed: int = 0) -> Summary:
        """The summary of one number for each example, NaN where it is undefined."""
        missing = np.isnan(values)
        kept = np.where(missing, 0.0, values) if undefined == "zero" else values[~missing]
        if len(kept) == 0:
            return cls(None, None, None, None, 0, int(missing.sum()))
        low, high = bootstrap_interval(kept, seed=seed)
        return cls(float(kept.mean()), float(kept.std()), low, high, len(kept), int(missing.sum()))
