"""Rows of whatever the caller has: lists, generators, pandas, datasets, files and folders of images.

Arrow comes with `attnx[data]`, and is imported only for those who have a data set.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from itertools import chain, islice
from math import inf
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeAlias

import torch

from attnx.adapters import (
    LABEL_COLUMNS,
    SUFFIXES,
    check_column,
    file_format,
    is_single_input,
    read_rows,
    text_column,
)
from attnx.arguments import path_of
from attnx.errors import AttnxError, FileFormatError, InputError, escaped, in_a_line
from attnx.registry import quoted

MOST_ROWS = 1024
"""Of a shard, where the caller did not choose its size."""
_TABLES = (".csv", ".tsv", ".jsonl", ".parquet")
_LINES = (".txt", "")
_COUNTED = 2**30
"""Bytes up to which a file is read once before the run, so that the remaining time can be estimated."""
_KNOWN = (
    "a list or generator of texts, a pandas Series or DataFrame, a datasets.Dataset or IterableDataset, the path of a "
    ".txt, .csv, .tsv, .jsonl or .parquet file, or of a folder of images"
)


@dataclass(frozen=True)
class DataRow:
    """What `explain` takes, or why there is nothing to take."""

    number: int
    """Its index in the data, from 0."""
    id: str
    """Its name in the data; where that has none, its number or its line."""
    input: Any = None
    gold: str | None = None
    """The label that the data has for it."""
    problem: str = ""
    """Why it could not be read; the run goes on without it."""

    @cached_property
    def sha256(self) -> str:
        """Of what is explained: a text, a pair, or the content of an image."""
        content = _content(self.input)
        if content is None:
            content = json.dumps(self.input, default=_for_json, sort_keys=True).encode()
        return sha256(content).hexdigest()


@dataclass(frozen=True)
class Shard:
    """A range of rows."""

    number: int
    rows: Sequence[DataRow]

    @cached_property
    def digest(self) -> str:
        """Of all that is in it: another row, another label, and it is another shard."""
        digest = sha256()
        for row in self.rows:
            digest.update(json.dumps([row.number, row.id, row.sha256, row.gold, row.problem]).encode())
        return digest.hexdigest()[:32]


def shards(rows: Iterable[DataRow], size_at: Callable[[int], int]) -> Iterator[Shard]:
    """The rows by ranges, `size_at` their first row; no more of them are in memory than one range."""
    iterator = iter(rows)
    number = start = 0
    while batch := [_storable(row) for row in islice(iterator, size_at(start))]:
        yield Shard(number, batch)
        number, start = number + 1, start + len(batch)


def _storable(row: DataRow) -> DataRow:
    """The row, or one that says why it cannot be stored: it has no digest, or a name or label that is not UTF-8."""
    texts = {name: getattr(row, name) or "" for name in ("id", "gold", "problem")}
    safe = {name: escaped(text) for name, text in texts.items()}
    broken = [name for name in texts if safe[name] != texts[name]]
    if broken:
        noun = "label" if broken[0] == "gold" else broken[0]
        problem = safe["problem"] or f"its {noun} is not valid UTF-8: {safe[broken[0]]}"
        row = replace(row, id=safe["id"], gold=safe["gold"] or None, problem=problem)
    try:
        row.sha256  # noqa: B018 (it is cached)
    except Exception as error:  # a list that contains itself, keys that cannot be sorted
        return replace(row, input=None, problem=f"this row cannot be hashed ({in_a_line(error)})")
    return row


def _content(value: Any) -> bytes | None:
    """All bytes of a text, an image, an array or a file; None for what JSON describes."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, PathLike):  # the content of an image, so that another one of this name is another row
        path = Path(fspath(value))
        try:
            return path.read_bytes()
        except OSError:  # reported where it is explained
            return str(path).encode()
    if isinstance(value, torch.Tensor):
        data: bytes = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        return f"{tuple(value.shape)} {value.dtype}".encode() + data
    if hasattr(value, "tobytes") and hasattr(value, "size"):  # a PIL image, an array
        return f"{value.size} {getattr(value, 'mode', '')}".encode() + bytes(value.tobytes())
    digest = getattr(value, "digest", None)  # of a prepared input
    return digest.encode() if isinstance(digest, str) else None


def _for_json(value: Any) -> Any:
    """By all of its content, for its `repr` is abridged, or names its address in memory."""
    content = _content(value)
    if content is not None:
        return sha256(content).hexdigest()
    return dict(value) if isinstance(value, Mapping) else repr(value)


Column: TypeAlias = str | int | Sequence[str | int] | None
"""The column of the texts, or the two of pairs; None for `text` or the like. Numbers are names, as pandas has them."""


@dataclass(frozen=True)
class Columns:
    """Those that the caller named: each None leaves it to the names that tables usually have."""

    text: Column = None
    gold: str | int | None = None
    id: str | int | None = None

    @property
    def any(self) -> bool:
        return any(name is not None for name in (self.text, self.gold, self.id))

    def of_table(self, source: str, known: Sequence[str]) -> TableColumns:
        """The columns of this table; one that it lacks is an error that names the nearest."""
        names = [self.text] if self.text is None or isinstance(self.text, (str, int)) else list(self.text)
        if not 1 <= len(names) <= 2:
            raise InputError(f"column is the name of one column, or of two for pairs of texts, found {len(names)}")
        try:
            texts = tuple(text_column(source, None if name is None else str(name), known) for name in names)
            columns = self.next_to(texts, known)
            for name in (columns.gold, columns.id):
                if name is not None:
                    check_column(name, known)
        except InputError as error:
            raise type(error)(str(error) if str(error).startswith(source) else f"{source}: {error}") from None
        return columns

    def next_to(self, texts: tuple[str, ...], known: Sequence[str]) -> TableColumns:
        """With the columns of labels and names."""
        others = [name for name in known if name not in texts]
        gold = next((name for name in LABEL_COLUMNS if name in others), None) if self.gold is None else str(self.gold)
        id_ = ("id" if "id" in others else None) if self.id is None else str(self.id)
        return TableColumns(texts, gold, id_)


@dataclass(frozen=True)
class TableColumns:
    """The columns of one table that are read."""

    texts: tuple[str, ...]
    gold: str | None = None
    id: str | None = None

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for name in (*self.texts, self.gold, self.id) if name is not None))

    def row(
        self, number: int, name: str, cells: Mapping[str, Any], labels: Sequence[str] | None = None, whole: Any = None
    ) -> DataRow:
        """One row; `name` is its id where no column has one, `labels` are names of numbered classes.

        Where the cells together are one input, that is the `whole`. A cell that cannot be read is the problem of its
        row.
        """
        try:
            values = tuple(_as_python(cells.get(text)) for text in self.texts)
            gold = None if self.gold is None else _as_python(cells.get(self.gold))
            if labels is not None and isinstance(gold, int) and 0 <= gold < len(labels):
                gold = labels[gold]
            id_ = _as_python(cells.get(self.id)) if self.id is not None else None
            missing = [text for text, value in zip(self.texts, values, strict=True) if _is_missing(value)]
            return DataRow(
                number,
                name if _is_missing(id_) else str(id_),
                whole if whole is not None else values[0] if len(values) == 1 else values,
                None if _is_missing(gold) else _label(gold),
                f"there is nothing in column {missing[0]!r}" if missing else "",
            )
        except Exception as error:  # a number of more digits than Python writes, an object that cannot be printed
            return DataRow(number, name, problem=f"this row cannot be read ({in_a_line(error):.120})")


def _as_python(value: Any) -> Any:
    """A number of numpy or torch as Python's."""
    return value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value


def _is_missing(value: Any) -> bool:
    """None, and what pandas has for it."""
    return value is None or (isinstance(value, float) and value != value) or type(value).__name__ == "NAType"


def _label(gold: Any) -> str:
    """A whole number stays one, also where a column with gaps made it a float."""
    return str(int(gold)) if isinstance(gold, float) and gold.is_integer() else str(gold)


@dataclass(frozen=True, eq=False)
class Source:
    """Rows in an order that is always the same. A generator can be read but once."""

    name: str
    rows: Iterator[DataRow]
    count: int | None = None
    """How many there are, where that is known before they are read."""


def source_of(data: Any, columns: Columns) -> Source:
    """The rows of `data`; what is no data set is an error that names what is."""
    for matches, make in _KINDS:
        if matches(data):
            source = make(data, columns)
            first = next(source.rows, None)
            if first is None:
                raise InputError(f"{source.name} has no row in it: there is nothing to explain")
            return replace(source, rows=chain([first], source.rows))
    advice = next((text for matches, text in _ADVICE if matches(data)), "")
    raise InputError(f"{quoted(type(data).__name__)} is no data set{advice}; give {_KNOWN}")


def _path(data: str | PathLike[str], columns: Columns) -> Source:
    path = Path(path_of(data)).expanduser()
    if path.is_dir():
        if columns.any:
            raise InputError(f"{path.name} is a folder of images, which has no columns; leave column out")
        images = _images(path.absolute())
        return Source(str(data), _image_rows(path.absolute(), images), len(images))
    if not path.is_file():
        hint = "; one text goes in a list: [text]" if isinstance(data, str) and " " in data else ""
        raise InputError(f"there is no file or folder {quoted(str(data))}{hint}")
    count = sum(1 for _ in _file_rows(path, columns)) if path.stat().st_size <= _COUNTED else None
    return Source(path.name, _file_rows(path, columns), count)


def _file_rows(path: Path, columns: Columns) -> Iterator[DataRow]:
    """The rows of a file in their order. Empty lines are no rows; a row with an empty cell says so."""
    kind = file_format(path)
    if kind not in (*_TABLES, *_LINES):
        raise InputError(
            f"{path.name} is no file of texts that attnx knows: give .txt (a text a line), {', '.join(_TABLES)}, the "
            "first four also gzipped (.gz)"
        )
    if kind == ".parquet":
        yield from _parquet_rows(path, columns)
        return
    if kind in _LINES and columns.any:
        raise InputError(f"{path.name} has a text in each line and no columns; give a {', '.join(_TABLES)}")
    table: TableColumns | None = None
    # what is not UTF-8 is one bad row, and not the end
    for number, (line, cells, known) in enumerate(read_rows(path, errors="surrogateescape", longest=inf)):
        if isinstance(cells, str):
            yield DataRow(number, str(line), problem=f"line {line}: {cells}")
            continue
        table = table or columns.of_table(path.name, known or list(cells))
        row = table.row(number, str(line), cells)
        yield replace(row, problem=f"line {line}: {row.problem}") if row.problem else row


def _parquet_rows(path: Path, columns: Columns) -> Iterator[DataRow]:
    try:
        file = parquet_file(path)
        table = columns.of_table(path.name, file.schema_arrow.names)
        batches = file.iter_batches(batch_size=MOST_ROWS, columns=table.names, use_threads=False)
        for number, cells in enumerate(chain.from_iterable(map(_batch_rows, batches))):
            if isinstance(cells, str):
                yield DataRow(number, str(number), problem=cells)
            else:
                yield table.row(number, str(number), cells)
    except (AttnxError, OSError):
        raise
    except Exception as error:  # whatever a damaged file can lead to
        raise FileFormatError(f"{path.name} is no Parquet file that can be read: {error!s:.120}") from error


def _batch_rows(batch: Any) -> Iterator[Mapping[str, Any] | str]:
    """Rows of an Arrow batch; one with a cell that cannot be read, such as a text that is not UTF-8, says so."""
    try:
        yield from batch.to_pylist()
        return
    except Exception:  # in whichever row it is
        pass
    for index in range(batch.num_rows):
        try:
            yield batch.slice(index, 1).to_pylist()[0]
        except Exception as error:
            yield f"this row cannot be read ({in_a_line(error):.120})"


def _images(folder: Path) -> list[Path]:
    """All files named like an image, in the folder and below it, in the order of their names."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    if not paths:
        names = ", ".join(sorted(path.name for path in folder.iterdir())[:3])
        raise InputError(
            f"the folder {folder} has no images in it ({names or 'nothing'}); give a file of texts, a folder of images "
            f"({', '.join(SUFFIXES[:4])}, …), or what datasets.load_from_disk makes of it"
        )
    return paths


def _image_rows(folder: Path, paths: Sequence[Path]) -> Iterator[DataRow]:
    for number, path in enumerate(paths):
        inside = path.relative_to(folder)
        yield DataRow(number, inside.as_posix(), path, inside.parts[0] if len(inside.parts) > 1 else None)


def _frame(data: Any, columns: Columns) -> Source:
    known = [str(name) for name in data.columns]  # they may be numbers
    table = columns.of_table("the DataFrame", known)
    cells = zip(*(data.iloc[:, known.index(name)] for name in table.names), strict=True)
    return _indexed("the DataFrame", table, data, (dict(zip(table.names, values, strict=True)) for values in cells))


def _series(data: Any, columns: Columns) -> Source:
    if columns.gold or columns.id:
        raise InputError("a Series has one column; give the DataFrame for labels and ids")
    return _indexed("the Series", TableColumns(("text",)), data, ({"text": value} for value in data))


def _indexed(name: str, table: TableColumns, data: Any, rows: Iterable[Mapping[str, Any]]) -> Source:
    counted = type(data.index).__name__ == "RangeIndex"
    ids = (str(number if counted else data.index[number]) for number in range(len(data)))
    return Source(name, (table.row(number, next(ids), cells) for number, cells in enumerate(rows)), len(data))


def _dataset(data: Any, columns: Columns) -> Source:
    """Of the datasets library; a stream may not know its columns before its first row.

    A format, such as tensors of torch, is for training: the cells are read as Python has them.
    """
    if getattr(data, "format", {}).get("type") != "custom":  # the caller's own transform makes the rows
        data = data.with_format(None)
    name, known = f"the {type(data).__name__}", data.column_names
    rows: Iterator[Mapping[str, Any]] = iter(data)
    if known is None:
        first = next(rows, None)
        if first is None:
            return Source(name, iter(()))
        known, rows = list(first), chain([first], rows)
    table = columns.of_table(type(data).__name__, known)
    labels = getattr((data.features or {}).get(table.gold), "names", None) if table.gold is not None else None
    count = len(data) if hasattr(data, "__len__") else None
    if count is not None:
        rows = iter(data.select_columns(table.names))
    return Source(name, (table.row(number, str(number), cells, labels) for number, cells in enumerate(rows)), count)


def _iterable(data: Iterable[Any], columns: Columns) -> Source:
    """Texts, pairs or images; or objects with columns, as a JSONL file has them."""
    name = f"the {type(data).__name__}"
    return Source(name, _member_rows(data, name, columns), len(data) if isinstance(data, (list, tuple)) else None)


def _member_rows(data: Iterable[Any], name: str, columns: Columns) -> Iterator[DataRow]:
    table: TableColumns | None = None
    for number, member in enumerate(data):
        if isinstance(member, Mapping) and columns.text is None and is_single_input(member):
            yield columns.next_to((), list(member)).row(number, str(number), member, whole=member)
        elif isinstance(member, Mapping):
            cells = {str(key): value for key, value in member.items()}
            table = table or columns.of_table(name, list(cells))
            yield table.row(number, str(number), cells)
        elif columns.any:
            raise InputError(f"column was named, but row {number} of {name} is {quoted(member)}, which has no columns")
        else:
            yield DataRow(number, str(number), member, problem="there is nothing in this row" if member is None else "")


def _of_library(library: str, *names: str) -> Callable[[Any], bool]:
    """Whether an object is of these classes, without importing a library that may not be installed."""
    return lambda data: any(
        kind.__module__.split(".")[0] == library and kind.__name__ in names for kind in type(data).__mro__
    )


def _split(data: Any, columns: Columns) -> Source:
    raise InputError(f"a DatasetDict has several data sets ({', '.join(data)}); give one: data[{next(iter(data))!r}]")


def _function(data: Any, columns: Columns) -> Source:
    raise InputError("a function is no data set; call it, and give the generator that it returns")


_KINDS: tuple[tuple[Callable[[Any], bool], Callable[[Any, Columns], Source]], ...] = (
    (lambda data: isinstance(data, (str, PathLike)), _path),
    (_of_library("pandas", "DataFrame"), _frame),
    (_of_library("pandas", "Series"), _series),
    (_of_library("datasets", "DatasetDict", "IterableDatasetDict"), _split),
    (_of_library("datasets", "Dataset", "IterableDataset"), _dataset),
    (lambda data: isinstance(data, (list, tuple)) or hasattr(data, "__next__"), _iterable),
    (lambda data: hasattr(data, "__code__"), _function),
)
"""How each kind is recognised, and read."""

_ADVICE: tuple[tuple[Callable[[Any], bool], str], ...] = (
    (lambda data: isinstance(data, Mapping), ", but pandas.DataFrame(data) is one, or a list of rows"),
    (lambda data: isinstance(data, (set, frozenset)), ": a set has no order to resume in, sorted(data) has one"),
    (_of_library("torch", "DataLoader"), ", it gives batches; give what it was made of: data.dataset"),
    (lambda data: hasattr(data, "__iter__") or hasattr(data, "__getitem__"), ", but list(data) may be one"),
)


def arrow() -> Any:
    """The module `pyarrow`."""
    try:
        import pyarrow
    except ImportError as error:
        raise AttnxError("data sets are kept as Parquet, which needs pyarrow: pip install 'attnx[data]'") from error
    return pyarrow


def parquet() -> Any:
    """The module `pyarrow.parquet`."""
    arrow()
    from pyarrow import parquet as module

    return module


def parquet_file(file: Any) -> Any:
    """A Parquet file, which must be read with `use_threads=False`.

    Arrow's threads do not end well with a process that loaded torch before them: it is aborted, though all was done.
    """
    return parquet().ParquetFile(file, pre_buffer=False, page_checksum_verification=True)
