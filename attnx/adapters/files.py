"""Files of texts, labelled or not: plain lines, CSV, TSV and JSON Lines, gzipped or not."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

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
    if column is not None and file_format(path) not in (*_DIALECTS, ".jsonl"):
        raise InputError(f"{path.name} has a text in each line and no columns; give a .csv, .tsv or .jsonl")
    texts = list(islice(_labelled(path, column), limit))
    if not texts:
        raise InputError(f"{path.name} has no text in it")
    return texts


def _labelled(path: Path, column: str | None) -> Iterator[LabelledText]:
    label_column: str | None = None
    for number, (line, row, columns) in enumerate(read_rows(path)):
        if isinstance(row, str):
            raise FileFormatError(f"{path.name}, line {line}: {row}")
        if number == 0:
            column = text_column(path.name, column, columns or list(row))
            label_column = next((name for name in LABEL_COLUMNS if name in row), None)
        text = row.get(str(column))
        if not isinstance(text, str):
            raise FileFormatError(f"{path.name}, line {line} has no text in column {column!r}")
        if text.strip():
            label = None if label_column is None else row.get(label_column)
            yield LabelledText(text.strip(), None if label is None else str(label))


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


def iterate_lines(file: IO[str], path: Path, longest: float | None = None) -> Iterator[str]:
    """The lines as they are needed, none too long and not without end: a small gzip file may hold terabytes."""
    total = 0
    while line := file.readline(LONGEST_LINE):
        total += len(line)
        if len(line) == LONGEST_LINE and not line.endswith("\n"):
            raise FileFormatError(
                f"{path.name} has a line of more than {LONGEST_LINE:,} characters: no text is as long"
            )
        if total > (LONGEST_FILE if longest is None else longest):
            raise FileFormatError(f"{path.name} has more than {LONGEST_FILE:,} characters; ask for fewer texts of it")
        yield line


def file_format(path: Path) -> str:
    """The end of a file's name that tells its format, without that of gzip."""
    suffix = (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()
    if suffix == ".json":
        raise FileFormatError(f"{path.name} is one JSON document; write an object a line into a .jsonl file")
    return ".jsonl" if suffix == ".ndjson" else suffix


def read_rows(
    path: Path, *, errors: str = "strict", longest: float | None = None
) -> Iterator[tuple[int, dict[str, Any] | str, Sequence[str] | None]]:
    """Of each row its line, its cells or what is wrong with it, and the columns where the file has a head.

    Blank lines are no rows. A line of a file without columns is a row with a `text`.
    """
    kind = file_format(path)
    try:
        with opened(path, errors) as file:
            lines = iterate_lines(file, path, longest)
            if kind in _DIALECTS:
                columns, rows = _separated(lines, path.name, kind)
                yield from ((line, cells, columns) for line, cells in rows)
                return
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield number, _json_object(line) if kind == ".jsonl" else {"text": line.rstrip("\r\n")}, None
    except _UNREADABLE as error:
        raise FileFormatError(f"cannot read {path}: {error!s:.200}") from error


def _json_object(line: str) -> dict[str, Any] | str:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        return f"no JSON ({error!s:.80})"
    return value if isinstance(value, dict) else f"expected an object with columns, found {value!r:.40}"


def _separated(
    lines: Iterator[str], name: str, kind: str
) -> tuple[list[str], Iterator[tuple[int, dict[str, str] | str]]]:
    """The columns of a CSV or TSV file, and of each row the line where it ends and its cells, or what is wrong with it.

    It is read strictly: a row has as many cells as there are columns. Where a quotation mark is open over several lines
    and then misplaced, or never closed, nobody knows where rows begin, and that is an error of the file.
    """
    reader = csv.reader(lines, dialect=_DIALECTS[kind], strict=True)

    def record() -> list[str] | str | None:
        """The cells of the next row, or what is wrong with it; None at the end."""
        line = reader.line_num + 1
        limit = csv.field_size_limit(LONGEST_LINE)  # Python's limit, 131,072 characters, is one of the whole process
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
            csv.field_size_limit(limit)

    header = next((row for row in iter(record, None) if row), [])
    if isinstance(header, str):
        raise FileFormatError(f"{name}: the names of the columns are {header}")
    columns = list(header)

    def rows() -> Iterator[tuple[int, dict[str, str] | str]]:
        for cells in iter(record, None):
            if isinstance(cells, list) and cells and len(cells) != len(columns):
                hint = "; a cell with a comma in it needs quotation marks" if kind == ".csv" else ""
                cells = f"there are {len(columns)} columns, and this row has {len(cells)} cells{hint}"
            if cells:
                yield reader.line_num, cells if isinstance(cells, str) else dict(zip(columns, cells, strict=True))

    return columns, rows()


def text_column(source: str, column: str | None, columns: Sequence[str]) -> str:
    """The column that has the texts: the requested one, or `text` or the like; there must be one of this name."""
    if column is None:
        column = next((name for name in _TEXT_COLUMNS if name in columns), None)
        if column is None:
            raise InputError(
                f"{source} has none of the columns {', '.join(_TEXT_COLUMNS)}; say which has the texts: column, one of "
                f"{', '.join(columns)}"
            )
    check_column(column, columns)
    return column


def check_column(column: str, columns: Sequence[str]) -> None:
    """That a table with these columns has one of this name, and no other of the same."""
    if column not in columns:
        raise InputError(unknown("column", column, columns))
    if columns.count(column) > 1:
        raise InputError(f"{columns.count(column)} columns are called {quoted(column)}; rename all but one of them")
