"""One number from each of several models: how far apart they lie, and where that of one more would."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

FEWEST = 3
"""Models from which on an interval is computed: of two, Student's t has twelve deviations to either side."""

Place: TypeAlias = Literal["within", "above", "below"]

_LEVEL = 0.975
_ROUNDED = 0.005
"""Half of the last digit that the paper prints."""


@dataclass(frozen=True)
class Spread:
    """Mean and deviation over models.

    >>> Spread.of([0.4, 0.5, 0.6]).mean
    0.5
    """

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float | None]) -> Spread:
        """Models without a number are left out."""
        return cls(tuple(float(one) for one in values if one is not None))

    @property
    def mean(self) -> float | None:
        return float(np.mean(self.values)) if self.values else None

    @property
    def deviation(self) -> float | None:
        """Of the sample, n − 1 beneath: what is asked is how trainings differ, not how these do. None of one model."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the mean over all trainings, by Student's t; None of fewer than three."""
        return self._around((1 / len(self.values)) ** 0.5) if len(self.values) >= FEWEST else None

    @property
    def expected(self) -> tuple[float, float] | None:
        """Where one more training would come out: the 95 % prediction interval by Student's t.

        Of two models it is merely their range, and of one there is none.
        """
        if len(self.values) >= FEWEST:
            return self._around((1 + 1 / len(self.values)) ** 0.5)
        return (min(self.values), max(self.values)) if len(self.values) > 1 else None

    def place(self, published: float) -> Place | None:
        """Where a number that was printed with two digits lies beside what is expected."""
        if self.expected is None:
            return None
        low, high = self.expected
        return "above" if published > high + _ROUNDED else "below" if published < low - _ROUNDED else "within"

    def _around(self, factor: float) -> tuple[float, float]:
        from scipy.special import stdtrit  # takes longer to load than most tables to show

        mean, deviation = self.mean or 0.0, self.deviation or 0.0
        half = float(stdtrit(len(self.values) - 1, _LEVEL)) * deviation * factor
        return mean - half, mean + half
