"""Ratios and exponents in what a benchmark printed: "1.23 ×", "15.1 times the writing", "n^3.41".

What stands on the line beside them, without seconds and megabytes, is their name, so that two runs can be compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

_NUMBER = r"[+-]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?"
_RATIO = re.compile(rf"({_NUMBER}) (?:×(?! ?\d)|times(?= ))")
_EXPONENT = re.compile(r"n\^(\d+\.\d+)")
_LIMIT = re.compile(r"\((?:floor|must)[^)]*\)")
_MEASURED = re.compile(
    rf"{_NUMBER} ?(?:ms|s|GB|MB|GFLOP/s|%|a second|×(?! ?\d)|times)(?=[ ,;:.)]|$)|n\^\d+\.\d+|(?<=by ){_NUMBER}"
)


@dataclass(frozen=True)
class Found:
    """A number of a run that says what something costs, whatever the machine."""

    benchmark: str
    what: str
    kind: str
    """ratio or exponent."""
    value: float

    @property
    def key(self) -> tuple[str, str, str]:
        return self.benchmark, self.what, self.kind

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def found_in(benchmark: str, text: str) -> list[Found]:
    """All of them, in the order of the lines."""
    rows: dict[tuple[str, str, str], Found] = {}
    for name, line in _named_lines(text):
        for kind, pattern in (("ratio", _RATIO), ("exponent", _EXPONENT)):
            for number, match in enumerate(pattern.finditer(line)):
                what = name if number == 0 else f"{name} ({number + 1})"
                row = Found(benchmark, what, kind, float(match[1].replace(",", "")))
                rows.setdefault(row.key, row)
    return list(rows.values())


def _named_lines(text: str) -> Iterator[tuple[str, str]]:
    """(name, line) of each; an indented line is named after the heading above it, too."""
    heading = ""
    for line in text.splitlines():
        bare = _LIMIT.sub("", line)
        name = _without_measures(bare)
        if line[:1].strip():
            heading = name
            yield name, bare
        elif line.strip():
            yield f"{heading}: {name}" if heading else name, bare


def _without_measures(line: str) -> str:
    """
    >>> _without_measures("    2.41 s   1.23 ×  explain, n = 512")
    'explain, n = 512'
    """
    return re.sub(r"[ ,:;]*$|^[ ,:;]*", "", re.sub(r"\s+", " ", _MEASURED.sub("", line))).strip()
