"""Links between the words of two texts: chosen from a matrix of scores, and held against those of people.

A link is (source, target), both counted from 0. The matrix is target × source, a row for each word that was written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
Link: TypeAlias = tuple[int, int]
Links: TypeAlias = tuple[Link, ...]
Choice: TypeAlias = Literal["argmax", "intersection"]


def argmax(scores: Array) -> set[Link]:
    """For each target word the source word with the highest score, the first of equals; none for a row without any.

    >>> sorted(argmax(np.array([[0.7, 0.3], [0.9, 0.1]])))
    [(0, 0), (0, 1)]
    """
    return {(int(row.argmax()), target) for target, row in enumerate(scores) if row.size and row.max() > 0}


def intersection(scores: Array) -> set[Link]:
    """What is highest in both directions: of its row, and of its column.

    >>> sorted(intersection(np.array([[0.7, 0.3], [0.9, 0.1]])))
    [(0, 1)]
    """
    return argmax(scores) & {(source, target) for target, source in argmax(scores.T)}


CHOICES: Mapping[str, Callable[[Array], set[Link]]] = MappingProxyType({"argmax": argmax, "intersection": intersection})
"""How links are chosen from scores."""


@dataclass(frozen=True)
class Gold:
    """The links of one pair of sentences by people: those that are sure, and all that are possible, the sure included.

    Och and Ney (2003) call them S and P.
    """

    sure: frozenset[Link]
    possible: frozenset[Link]


@dataclass(frozen=True)
class LinkCounts:
    """How many links were found, are in the gold, and are in both; of several sentences they add up."""

    found: int = 0
    sure: int = 0
    found_sure: int = 0
    found_possible: int = 0

    @classmethod
    def of(cls, found: Collection[Link], gold: Gold) -> LinkCounts:
        links = set(found)
        return cls(len(links), len(gold.sure), len(links & gold.sure), len(links & gold.possible))

    def __add__(self, other: LinkCounts) -> LinkCounts:
        return LinkCounts(
            self.found + other.found,
            self.sure + other.sure,
            self.found_sure + other.found_sure,
            self.found_possible + other.found_possible,
        )

    @property
    def precision(self) -> float | None:
        """The share of what was found that is possible; None where nothing was found."""
        return self.found_possible / self.found if self.found else None

    @property
    def recall(self) -> float | None:
        """The share of what is sure that was found; None where nothing is sure."""
        return self.found_sure / self.sure if self.sure else None

    @property
    def error_rate(self) -> float | None:
        """1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|), Och and Ney's alignment error rate; None where both are empty.

        >>> LinkCounts.of([(0, 0), (1, 1)], Gold(frozenset([(0, 0)]), frozenset([(0, 0), (1, 1)]))).error_rate
        0.0
        """
        size = self.found + self.sure
        return 1 - (self.found_sure + self.found_possible) / size if size else None
