"""What a whole run looked at: for each label the words and places that carry most, and where the data disagrees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from attnx.results import PROVENANCE, Between, Rules, TableResult


@dataclass(frozen=True)
class CarryingWord:
    """A word in lower case, over all rows of a group."""

    text: str
    first: int
    """Rows in which it carries most of all words."""
    rows: int
    """Rows in which it occurs."""
    share: float
    """Its mean share of what all words of a row carry, over the rows in which it occurs."""
    examples: tuple[int, ...]
    """Some rows in which it carries most."""


@dataclass(frozen=True)
class Group:
    """Rows with one answer; among them those where the data says something else are a group of their own."""

    label: str
    gold: str | None
    """The data's label, where this group is of rows that have another than the model's."""
    rows: int
    right: int
    wrong: int
    """Of the rows whose label the data tells."""
    probability: float | None
    """Mean of the answer's."""
    words: tuple[CarryingWord, ...]
    places: tuple[float, ...]
    """Share of what is carried by the first, second, … fifth of the words of a text; then by special tokens."""


def _five_and_special(places: Sequence[float], _: Any) -> str | None:
    return None if len(places) == 6 else "six shares: one for each fifth of the words, one for special tokens"


@dataclass(frozen=True, eq=False)
class RunSummary(TableResult):
    """Of a run. `s.groups` has the labels, `s.disagreements` the rows where the data says something else."""

    kind: ClassVar[str] = "run summary"
    rules: ClassVar[Rules] = {
        "rows": Between(0),
        "failed": Between(0),
        "groups.*.places": _five_and_special,
        "disagreements.*.places": _five_and_special,
        **PROVENANCE,
    }
    indent: ClassVar[int | None] = 2

    explainer: str
    """The method or reference whose scores are summed up."""
    rows: int
    failed: int
    groups: tuple[Group, ...]
    disagreements: tuple[Group, ...]
    errors: Mapping[str, int] = field(default_factory=dict)
    """Reasons for rows that failed → how many, the commonest first."""
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"RunSummary({self.rows:,} rows, {len(self.groups)} labels, {self.explainer})"
