"""The bootstrap: how far a mean would move if the sample were drawn again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from attnx.errors import InputError

Array = np.ndarray[Any, np.dtype[np.float64]]

RESAMPLES = 2000
_VALUES_AT_ONCE = 4_000_000


def bootstrap_interval(
    values: Array, *, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float]:
    """The percentile interval of the mean of `values`: the same for the same values and seed."""
    if len(values) == 0:
        raise InputError("an interval needs at least one value")
    if not 0 < level < 1:
        raise InputError(f"the level of an interval lies between 0 and 1, found {level}")
    if seed < 0:
        raise InputError(f"a seed is a whole number from 0, found {seed}")
    random = np.random.default_rng(seed)
    means = np.empty(resamples)
    step = max(1, _VALUES_AT_ONCE // len(values))
    for start in range(0, resamples, step):
        drawn = random.integers(len(values), size=(min(step, resamples - start), len(values)), dtype=np.int32)
        means[start : start + step] = values[drawn].mean(-1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


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
