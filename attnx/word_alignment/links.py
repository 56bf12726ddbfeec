"""Links between words: how they are chosen from scores, how they agree with a gold, and files of them.

A file has a line for each pair of sentences, source before target.

0-0 1-2 2-1          Pharaoh's format: from 0, all sure
1-1 2p3 3-2          .talp, and others like it: from 1, with p for what is only possible
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np

from attnx.adapters import read_lines
from attnx.arguments import path_of
from attnx.errors import FileFormatError, InputError

Array: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
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
    def of(cls, links: Collection[Link], gold: Gold) -> LinkCounts:
        links = set(links)
        return cls(len(links), len(gold.sure), len(links & gold.sure), len(links & gold.possible))

    def __add__(self, other: LinkCounts) -> LinkCounts:
        return LinkCounts(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

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


_LINK = re.compile(r"(\d{1,6})([-p])(\d{1,6})")
_FROM_ONE = (".talp",)
"""Ends of names of files that count from 1."""


def read_links(path: str | Path, *, first: int | None = None) -> list[Gold]:
    """The links of each line; `first` is the number of the first word, by default 1 in a .talp file and 0 in others."""
    if first not in (None, 0, 1):
        raise InputError(f"the first word is number 0 or 1, found {first}")
    path = Path(path_of(path))
    start = (1 if path.suffix.lower() in _FROM_ONE else 0) if first is None else first
    return [_gold(line, start, f"{path.name}, line {number}") for number, line in enumerate(read_lines(path), start=1)]


def pharaoh(sentences: Iterable[Sequence[Link]]) -> str:
    """Pharaoh's format: a line for each pair of sentences, empty where nothing is linked.

    >>> pharaoh([[(0, 1), (1, 0)], []])
    '1-0 0-1\\n\\n'
    """
    return "".join(
        " ".join(f"{source}-{target}" for source, target in in_order(sentence)) + "\n" for sentence in sentences
    )


def in_order(links: Iterable[Link]) -> list[Link]:
    """By the target's words, which is how they were written."""
    return sorted(links, key=lambda link: (link[1], link[0]))


def _gold(line: str, first: int, where: str) -> Gold:
    sure, possible = set(), set()
    for word in line.split():
        match = _LINK.fullmatch(word)
        if match is None:
            raise FileFormatError(f"{where}: {word!r:.40} is no link; expected source-target as in 0-2, or 1p3")
        link = (int(match[1]) - first, int(match[3]) - first)
        if min(link) < 0:
            raise FileFormatError(f"{where}: {word} counts from 0, and words are counted from 1 here; give first=0")
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return Gold(frozenset(sure), frozenset(possible))
