"""What a page shows where no script runs: tables, and words on one of eleven backgrounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

LEVELS = 10


@dataclass(frozen=True)
class PlainTable:
    """Rows of cells with what is said around them."""

    template: ClassVar[str] = "templates/table.html.jinja"

    heading: str
    rows: Sequence[Sequence[str]] = ()
    lead: Sequence[str] = ()
    foot: Sequence[str] = ()


@dataclass(frozen=True)
class PlainWord:
    """A word, and the space before it."""

    text: str
    gap: str
    level: int
    """From 0 to 10, as a share of the strongest word."""
    score: str
    against: bool = False


@dataclass(frozen=True)
class PlainWords:
    """The answer, and the words of the text."""

    template: ClassVar[str] = "templates/words.html.jinja"

    label: str
    probability: str
    target: str
    """What is explained, where it is not the prediction alone; else empty."""
    headline: str
    verdict: str
    words: tuple[PlainWord, ...]
    notes: tuple[str, ...]


Plain: TypeAlias = PlainTable | PlainWords


def cell(value: float | None) -> str:
    """A number in a table.

    >>> cell(0.256)
    '0.26'
    """
    return "–" if value is None else f"{value:.2f}"
