"""Rows of a file as they are needed: a text a line, or a table; one that cannot be read says why."""

from __future__ import annotations

import csv
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

from attnx.data.columns import Columns, FoundColumns
from attnx.data.row import DataRow
from attnx.errors import AttnxError, FileFormatError, InputError
from attnx.inputs.files import DIALECTS, kind_of, lines_in, opened

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
            else:
                rows = _json(lines) if kind == ".jsonl" else _separated(lines, kind)
                yield from _numbered(rows, path, columns)
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


def _numbered(rows: Iterator[tuple[int, Any]], path: Path, columns: Columns) -> Iterator[DataRow]:
    found: FoundColumns | None = None
    for number, (line, cells) in enumerate(rows):
        if isinstance(cells, str):
            yield DataRow(number, str(line), problem=f"line {line}: {cells}")
            continue
        if found is None:
            found = columns.found(path.name, [name for name in cells if isinstance(name, str)])
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


def _separated(lines: Iterator[str], kind: str) -> Iterator[tuple[int, Mapping[str, Any] | str]]:
    reader = csv.DictReader(lines, dialect=DIALECTS[kind])
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield reader.line_num, f"no row of a table ({error!s:.80})"
            continue
        yield reader.line_num, cells


def _parquet(path: Path, columns: Columns) -> Iterator[DataRow]:
    from attnx.data.arrow import parquet_file  # only for those who have such a file

    try:
        file = parquet_file(path)
        found = columns.found(path.name, file.schema_arrow.names)
        number = 0
        for batch in file.iter_batches(batch_size=_AT_ONCE, columns=found.names, use_threads=False):
            for cells in batch.to_pylist():
                yield found.row(number, str(number), cells)
                number += 1
    except (AttnxError, OSError):
        raise
    except Exception as error:  # whatever a damaged file can lead to
        raise FileFormatError(f"{path.name} is no Parquet file that can be read: {error!s:.120}") from error
