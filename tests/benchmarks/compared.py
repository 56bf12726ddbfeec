"""A run of the benchmarks beside an earlier one: which ratios got worse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.benchmarks.printed import Found

SLACK = 0.15
"""Ratios of one run differ by so much from another's on a machine that does other work, too."""


@dataclass(frozen=True)
class Change:
    """One number, then and now."""

    now: Found
    before: float
    gains: bool

    @property
    def worse(self) -> float:
        """By how much of itself it is worse; below 0 where it is better."""
        growth = self.now.value / self.before - 1 if self.before else 0.0
        return -growth if self.gains and self.now.kind == "ratio" else growth

    def __str__(self) -> str:
        told = "LOSS" if self.worse > SLACK else "gain" if self.worse < -SLACK else ""
        sign = "n^" if self.now.kind == "exponent" else ""
        return (
            f"{self.now.benchmark:16} {sign}{self.before:<9.4g} → {sign}{self.now.value:<9.4g} {told:5} {self.now.what}"
        )


def changes(now: Sequence[Found], before: Sequence[Found], gains: Mapping[str, bool]) -> list[Change]:
    """What both runs measured."""
    known = {one.key: one.value for one in before}
    return [Change(one, known[one.key], gains.get(one.benchmark, False)) for one in now if one.key in known]
