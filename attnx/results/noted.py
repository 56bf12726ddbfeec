"""What explanations of many inputs note, for a result that is made of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Protocol


class Noting(Protocol):
    """An explanation, a probe."""

    @property
    def notes(self) -> tuple[str, ...]: ...


def counted(several: Iterable[Noting]) -> Mapping[str, int]:
    """Note → in how many of them it stands, the commonest first."""
    return dict(Counter(note for one in several for note in one.notes).most_common())
