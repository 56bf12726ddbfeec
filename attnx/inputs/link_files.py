"""Files of links between words, a line for each pair of sentences, source before target.

0-0 1-2 2-1          Pharaoh's format: from 0, all sure
1-1 2p3 3-2          .talp, and others like it: from 1, with p for what is only possible
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from attnx.agreement.links import Gold, Link
from attnx.arguments import path_of
from attnx.errors import FileFormatError, InputError
from attnx.inputs.files import lines_of

_LINK = re.compile(r"(\d{1,6})([-p])(\d{1,6})")
_FROM_ONE = (".talp",)
"""Ends of names of files that count from 1."""


def read_links(path: str | Path, *, first: int | None = None) -> list[Gold]:
    """The links of each line; `first` is the number of the first word, by default 1 in a .talp file and 0 in others."""
    if first not in (None, 0, 1):
        raise InputError(f"the first word is number 0 or 1, found {first}")
    path = Path(path_of(path))
    start = (1 if path.suffix.lower() in _FROM_ONE else 0) if first is None else first
    return [_gold(line, start, f"{path.name}, line {number}") for number, line in enumerate(lines_of(path), start=1)]


def pharaoh(sentences: Iterable[Sequence[Link]]) -> str:
    """Pharaoh's format: a line for each pair of sentences, empty where nothing is linked.

    >>> pharaoh([[(0, 1), (1, 0)], []])
    '1-0 0-1\\n\\n'
    """
    return "".join(" ".join(f"{source}-{target}" for source, target in in_order(one)) + "\n" for one in sentences)


def in_order(links: Iterable[Link]) -> list[Link]:
    """By the target's words, which is how they were written."""
    return sorted(links, key=lambda link: (link[1], link[0]))


def _gold(line: str, first: int, where: str) -> Gold:
    sure, possible = set(), set()
    for word in line.split():
        met = _LINK.fullmatch(word)
        if met is None:
            raise FileFormatError(f"{where}: {word!r:.40} is no link; expected source-target as in 0-2, or 1p3")
        link = (int(met[1]) - first, int(met[3]) - first)
        if min(link) < 0:
            raise FileFormatError(f"{where}: {word} counts from 0, and words were said to begin at 1; give first=0")
        possible.add(link)
        if met[2] == "-":
            sure.add(link)
    return Gold(frozenset(sure), frozenset(possible))
