"""Files of links between words, a line for each pair of sentences, source before target.

0-0 1-2 2-1          Pharaoh's format: from 0, all sure
1-1 2p3 3-2          .talp, and others like it: from 1, with p for what is only possible
"""

from __future__ import annotations

import csv
import gzip
import json
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Literal, TypeAlias

import numpy as np

from attnx.arguments import path_of
from attnx.errors import FileFormatError, InputError
from attnx.registry import quoted, unknown

_TEXT_COLUMNS = ("text", "sentence", "content", "review")
LABEL_COLUMNS = ("label", "labels", "target")
_ENCODING = "utf-8-sig"
"""Spreadsheets begin a UTF-8 file with a mark, which is no part of the first column's name."""

_UNREADABLE = (OSError, EOFError, zlib.error, UnicodeDecodeError)
LONGEST_LINE = 10_000_000
LONGEST_FILE = 2_000_000_000
"""Characters: more than any model reads, and more than a list of texts should take of the memory."""


class _Tabs(csv.excel_tab):
    """Quotation marks in a TSV file are part of the text."""

    quoting = csv.QUOTE_NONE


_DIALECTS = {".csv": csv.excel, ".tsv": _Tabs}
DELIMITED_SUFFIXES = tuple(_DIALECTS)


@dataclass(frozen=True)
class LabelledText:
    """A text, and its label where the file has one."""

    text: str
    label: str | None = None


def read_texts(path: str | Path, *, column: str | None = None, limit: int | None = None) -> list[LabelledText]:
    """The texts of a file, empty lines left out. `column` names the texts of a table, by default `text` or the like."""
    if limit is not None and limit < 1:
        raise InputError(f"the number of texts must be at least 1, found {limit}")
    path = Path(path_of(path))
    labelled_texts: list[LabelledText] = []
    for labelled_text in _read(path, column):
        if limit is not None and len(labelled_texts) == limit:
            break
        labelled_texts.append(labelled_text)
    if not labelled_texts:
        raise InputError(f"{path.name} has no text in it")
    return labelled_texts


def read_lines(path: Path) -> list[str]:
    """Every line of a file, empty ones too, where its number counts: lines of two files belong together."""
    try:
        with opened(path) as file:
            return [line.rstrip("\r\n") for line in iterate_lines(file, path)]
    except _UNREADABLE as error:
        raise FileFormatError(f"cannot read {path}: {error!s:.200}") from error


def opened(path: Path, errors: str = "strict") -> IO[str]:
    """The text of a file, gzipped or not; `errors` as Python's `open` has it."""
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding=_ENCODING, errors=errors, newline="")
    return path.open(encoding=_ENCODING, errors=errors, newline="")


def _read(path: Path, column: str | None) -> Iterator[LabelledText]:
    kind = kind_of(path)
    try:
        with opened(path) as file:
            lines = iterate_lines(file, path)
            if kind == ".jsonl":
                yield from _rows(_json_rows(lines, path), path, column)
            elif kind in DELIMITED_SUFFIXES:
                known, rows = separated(lines, path.name, kind)
                yield from _rows(rows, path, column, known)
            else:
                if column is not None:
                    raise InputError(f"{path.name} has a text in each line and no columns; give a .csv, .tsv or .jsonl")
                yield from (LabelledText(line.strip()) for line in lines if line.strip())
    except _UNREADABLE as error:
        raise FileFormatError(f"cannot read {path}: {error!s:.200}") from error


def separated(
    lines: Iterator[str], name: str, kind: str
) -> tuple[list[str], Iterator[tuple[int, dict[str, str] | str]]]:
    """The columns of a CSV or TSV file, and of each row the line where it ends and its cells, or what is wrong with it.

    It is read strictly: a row has as many cells as there are columns. Where a quotation mark is open over several lines
    and then misplaced, or never closed, nobody knows where rows begin, and that is an error of the file.
    """
    reader = csv.reader(lines, dialect=_DIALECTS[kind], strict=True)
    records = _records(reader, name)
    _, columns = next(records, (0, []))
    if isinstance(columns, str):
        raise FileFormatError(f"{name}: the names of the columns are {columns}")
    return columns, ((line, _cells(columns, cells, kind)) for line, cells in records)


def _records(reader: Any, name: str) -> Iterator[tuple[int, list[str] | str]]:
    while (record := _record(reader, name)) is not None:
        if record:
            yield reader.line_num, record


def _record(reader: Any, name: str) -> list[str] | str | None:
    """The cells of the next row, or what is wrong with it; None at the end."""
    line = reader.line_num + 1
    most = csv.field_size_limit(LONGEST_LINE)  # Python's own limit, 131,072 characters, holds for the whole process
    try:
        cells: list[str] | None = next(reader, None)
        return cells
    except csv.Error as error:
        if reader.line_num == line and "unexpected end" not in str(error):
            return f"no row of a table ({error!s:.80})"
        raise FileFormatError(
            f"{name}: a quotation mark in line {line} opens a cell that is not closed as it should be up to line "
            f"{reader.line_num} ({error!s:.80}); write a quotation mark inside a cell twice"
        ) from None
    finally:
        csv.field_size_limit(most)


def _cells(columns: Sequence[str], cells: list[str] | str, kind: str) -> dict[str, str] | str:
    if isinstance(cells, str):
        return cells
    if len(cells) != len(columns):
        hint = "; a cell with a comma in it needs quotation marks" if kind == ".csv" else ""
        return f"there are {len(columns)} columns, and this row has {len(cells)} cells{hint}"
    return dict(zip(columns, cells, strict=True))


def iterate_lines(file: IO[str], path: Path, longest: float | None = None) -> Iterator[str]:
    """The lines as they are needed, none too long and not without end: a small gzip file may hold terabytes."""
    longest = LONGEST_FILE if longest is None else longest
    total = 0
    while line := file.readline(LONGEST_LINE):
        total += len(line)
        if len(line) == LONGEST_LINE and not line.endswith("\n"):
            raise FileFormatError(
                f"{path.name} has a line of more than {LONGEST_LINE:,} characters: no text is as long"
            )
        if total > longest:
            raise FileFormatError(f"{path.name} has more than {LONGEST_FILE:,} characters; ask for fewer texts of it")
        yield line


def kind_of(path: Path) -> str:
    """The end of a file's name that tells its format, without that of gzip."""
    name = path.with_suffix("") if path.suffix == ".gz" else path
    suffix = name.suffix.lower()
    if suffix == ".json":
        raise FileFormatError(f"{path.name} is one JSON document; write an object a line into a .jsonl file")
    return ".jsonl" if suffix in (".jsonl", ".ndjson") else suffix


def _json_rows(lines: Any, path: Path) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError) as error:
                raise FileFormatError(f"{path.name}, line {number} is no JSON: {error!s:.80}") from None


def _rows(
    rows: Iterator[tuple[int, Any]], path: Path, column: str | None, known: Sequence[str] | None = None
) -> Iterator[LabelledText]:
    label_column = None
    for place, (number, row) in enumerate(rows):
        if not isinstance(row, dict):
            wrong = row if known is not None else f"expected an object with columns, found {row!r:.40}"
            raise FileFormatError(f"{path.name}, line {number}: {wrong}")
        if place == 0:
            column = text_column(path.name, column, list(row) if known is None else known)
            label_column = next((name for name in LABEL_COLUMNS if name in row), None)
        text = row.get(column)
        if not isinstance(text, str):
            raise FileFormatError(f"{path.name}, line {number} has no text in column {column!r}")
        if text.strip():
            label = None if label_column is None else row.get(label_column)
            yield LabelledText(text.strip(), None if label is None else str(label))


def text_column(source: str, column: str | None, known: Sequence[str]) -> str:
    """The column that has the texts: the asked one, or `text` or the like; there must be one of this name."""
    if column is None:
        column = next((name for name in _TEXT_COLUMNS if name in known), None)
        if column is None:
            raise InputError(
                f"{source} has none of the columns {', '.join(_TEXT_COLUMNS)}; say which has the texts: column, one of "
                f"{', '.join(known)}"
            )
    check_column(column, known)
    return column


def check_column(column: str, known: Sequence[str]) -> None:
    """That a table with these columns has one of this name, and no other of the same."""
    if column not in known:
        raise InputError(unknown("column", column, known))
    if known.count(column) > 1:
        raise InputError(f"{known.count(column)} columns are called {quoted(column)}; rename all but one of them")


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
