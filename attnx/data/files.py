"""Rows of a file as they are needed: a text a line, or a table; one that cannot be read says why."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

from attnx.data.columns import Columns, FoundColumns
from attnx.data.row import DataRow
from attnx.errors import AttnxError, FileFormatError, InputError, in_a_line
from attnx.inputs.files import TABLES_OF_TEXT, kind_of, lines_in, opened, separated

TABLES = (".csv", ".tsv", ".jsonl", ".parquet")
_LINES = (".txt", "")
_AT_ONCE = 1_024


def file_rows(path: Path, columns: Columns) -> Iterator[DataRow]:
    """The rows of a file in their order. Empty lines are no rows; an empty cell is one that says so."""
    kind = kind_of(path)
    if kind not in (*TABLES, *_LINES):
        raise InputError(
            f"{path.name} is no file of texts that attnx knows: give .txt (a text a line), {', '.join(TABLES)}, the "
            "first four also gzipped (.gz)"
        )
    try:
        if kind == ".parquet":
            yield from _parquet(path, columns)
            return
        with opened(path, errors="surrogateescape") as file:  # what is no UTF-8 is one bad row, and not the end
            lines = lines_in(file, path, longest=inf)
            if kind in _LINES:
                yield from _texts(lines, path, columns)
            elif kind in TABLES_OF_TEXT:
                known, rows = separated(lines, path.name, kind)
                yield from _numbered(rows, path, columns, known)
            else:
                yield from _numbered(_json(lines), path, columns)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise FileFormatError(f"cannot read {path}: {error!s:.200}") from error


def _texts(lines: Iterator[str], path: Path, columns: Columns) -> Iterator[DataRow]:
    if columns.any:
        raise InputError(f"{path.name} has a text in each line and no columns; give a {', '.join(TABLES)}")
    number = 0
    for line, text in enumerate(lines, start=1):
        if text.strip():
            yield DataRow(number, str(line), text.rstrip("\r\n"))
            number += 1


def _numbered(
    rows: Iterator[tuple[int, Any]], path: Path, columns: Columns, known: Sequence[str] | None = None
) -> Iterator[DataRow]:
    found: FoundColumns | None = None
    for number, (line, cells) in enumerate(rows):
        if isinstance(cells, str):
            yield DataRow(number, str(line), problem=f"line {line}: {cells}")
            continue
        if found is None:
            found = columns.found(path.name, list(cells) if known is None else known)
        row = found.row(number, str(line), cells)
        yield replace(row, problem=f"line {line}: {row.problem}") if row.problem else row


def _json(lines: Iterator[str]) -> Iterator[tuple[int, Mapping[str, Any] | str]]:
    """The line and its object, or what is wrong with it."""
    for line, text in enumerate(lines, start=1):
        if text.strip():
            try:
                found = json.loads(text)
            except (ValueError, RecursionError) as error:
                yield line, f"no JSON ({error!s:.80})"
                continue
            yield line, found if isinstance(found, dict) else f"expected an object with columns, found {found!r:.40}"


def _parquet(path: Path, columns: Columns) -> Iterator[DataRow]:
    from attnx.data.arrow import parquet_file  # only for those who have such a file

    try:
        file = parquet_file(path)
        found = columns.found(path.name, file.schema_arrow.names)
        number = 0
        for batch in file.iter_batches(batch_size=_AT_ONCE, columns=found.names, use_threads=False):
            for cells in _values(batch):
                if isinstance(cells, str):
                    yield DataRow(number, str(number), problem=cells)
                else:
                    yield found.row(number, str(number), cells)
                number += 1
    except (AttnxError, OSError):
        raise
    except Exception as error:  # whatever a damaged file can lead to
        raise FileFormatError(f"{path.name} is no Parquet file that can be read: {error!s:.120}") from error


def _values(batch: Any) -> Iterator[Mapping[str, Any] | str]:
    """Rows of an Arrow batch; one with a cell that cannot be read, such as a text that is no UTF-8, says so."""
    try:
        yield from batch.to_pylist()
        return
    except Exception:  # in whichever row it is
        pass
    for place in range(batch.num_rows):
        try:
            (cells,) = batch.slice(place, 1).to_pylist()
        except Exception as error:
            cells = f"this row cannot be read ({in_a_line(error):.120})"
        yield cells
