"""Arrow, where it is installed: it comes with `attnx[data]`, and is loaded only by those who have a data set."""

from __future__ import annotations

import json
import zlib
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
    DELIMITED_SUFFIXES,
    LABEL_COLUMNS,
    SUFFIXES,
    check_column,
    is_single_input,
    iterate_lines,
    opened,
    separated,
    text_column,
)
from attnx.adapters.files import kind_of
from attnx.arguments import path_of
from attnx.errors import AttnxError, FileFormatError, InputError, escaped, in_a_line
from attnx.registry import quoted

MOST_ROWS = 1024
"""Of a shard, where nobody chose its size."""


@dataclass(frozen=True)
class DataRow:
    """What `explain` takes, or why there is nothing to take."""

    number: int
    """Its place in the data, from 0."""
    id: str
    """What the data calls it; where that has no name for it, its number or its line."""
    given: Any = None
    gold: str | None = None
    """The label that the data has for it."""
    problem: str = ""
    """Why it could not be read; the run goes on without it."""

    @cached_property
    def sha256(self) -> str:
        """Of what is explained, be it a text, a pair, or the content of an image."""
        return str(_digest(self.given).hexdigest())


@dataclass(frozen=True)
class Shard:
    """A fixed range of rows."""

    number: int
    rows: Sequence[DataRow]

    @cached_property
    def digest(self) -> str:
        """Of all that is in it: another row, another label, and it is another shard."""
        whole = sha256()
        for row in self.rows:
            whole.update(json.dumps([row.number, row.id, row.sha256, row.gold, row.problem]).encode())
        return whole.hexdigest()[:32]


def shards(rows: Iterable[DataRow], size: int) -> Iterator[Shard]:
    """The rows by ranges of `size`; no more of them are held than one range."""
    waiting = iter(rows)
    number = 0
    while some := [_storable(row) for row in islice(waiting, size)]:
        yield Shard(number, some)
        number += 1


def _storable(row: DataRow) -> DataRow:
    """The row, or one that says why it cannot be kept: it has no digest, or a name or label that is no UTF-8."""
    told = {name: escaped(getattr(row, name) or "") for name in ("id", "gold", "problem")}
    broken = [name for name, text in told.items() if text != (getattr(row, name) or "")]
    if broken:
        problem = (
            told["problem"]
            or f"its {'label' if broken[0] == 'gold' else broken[0]} is not valid UTF-8: {told[broken[0]]}"
        )
        row = replace(row, id=told["id"], gold=told["gold"] or None, problem=problem)
    try:
        row.sha256  # noqa: B018 (it is kept)
    except Exception as error:  # a list that contains itself, keys that cannot be sorted
        return replace(row, given=None, problem=f"this row cannot be hashed ({in_a_line(error)})")
    return row


def _digest(given: Any) -> Any:
    if isinstance(given, str):
        return sha256(given.encode("utf-8", "surrogatepass"))
    content = _content(given)
    if content is not None:
        return sha256(content)
    return sha256(json.dumps(given, default=_told, sort_keys=True).encode())


def _content(given: Any) -> bytes | None:
    """All of it that is no plain value: a picture, numbers, a file; None for what is told otherwise."""
    if isinstance(given, PathLike):  # of an image its content, so that another picture of this name is another row
        path = Path(fspath(given))
        try:
            return path.read_bytes()
        except OSError:  # told where it is explained
            return str(path).encode()
    if isinstance(given, torch.Tensor):
        plain: bytes = given.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        return f"{tuple(given.shape)} {given.dtype}".encode() + plain
    if hasattr(given, "tobytes") and hasattr(given, "size"):  # a PIL image, an array
        return f"{given.size} {getattr(given, 'mode', '')}".encode() + bytes(given.tobytes())
    name = getattr(given, "digest", None)  # what was prepared before tells it by itself
    return name.encode() if isinstance(name, str) else None


def _told(one: Any) -> Any:
    """What JSON has no word for: by all of its content, for the words that print it are cut, or name its place."""
    content = _content(one)
    if content is not None:
        return sha256(content).hexdigest()
    return dict(one) if isinstance(one, Mapping) else repr(one)


Column: TypeAlias = str | int | Sequence[str | int] | None
"""The column of the texts, or the two of pairs; None for `text` or the like. Numbers are names, as pandas has them."""

_ID = "id"


@dataclass(frozen=True)
class Columns:
    """What a caller asked for: each None leaves it to the names that tables usually have."""

    text: Column = None
    gold: str | int | None = None
    id: str | int | None = None

    @property
    def any(self) -> bool:
        """Whether one was named."""
        return any(one is not None for one in (self.text, self.gold, self.id))

    def found(self, source: str, known: Sequence[str]) -> FoundColumns:
        """The columns of this table; one that it lacks is an error that names the nearest."""
        names = [self.text] if self.text is None or isinstance(self.text, (str, int)) else list(self.text)
        if not 1 <= len(names) <= 2:
            raise InputError(f"column is the name of one column, or of two for pairs of texts, found {len(names)}")
        try:
            texts = tuple(text_column(source, None if name is None else str(name), known) for name in names)
            result = self.beside(known, texts)
            for name in (result.gold, result.id):
                if name is not None:
                    check_column(name, known)
        except InputError as error:
            raise type(error)(str(error) if str(error).startswith(source) else f"{source}: {error}") from None
        return result

    def beside(self, known: Sequence[str], texts: tuple[str, ...] = ()) -> FoundColumns:
        """The columns of labels and names, beside those of the texts."""
        usual_gold = next((name for name in LABEL_COLUMNS if name in known and name not in texts), None)
        usual_id = _ID if _ID in known and _ID not in texts else None
        gold, id_ = (
            usual if name is None else str(name) for name, usual in ((self.gold, usual_gold), (self.id, usual_id))
        )
        return FoundColumns(texts, gold, id_)


@dataclass(frozen=True)
class FoundColumns:
    """The columns of one table."""

    texts: tuple[str, ...]
    gold: str | None
    id: str | None

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for name in (*self.texts, self.gold, self.id) if name is not None))

    def row(
        self, number: int, name: str, cells: Mapping[str, Any], labels: Sequence[str] | None = None, given: Any = None
    ) -> DataRow:
        """One row; `name` is what it is called where no column says, `labels` are names of numbered classes.

        What is `given` stands for the texts, where the cells together are one input. A cell that cannot be read is the
        problem of its row.
        """
        try:
            return self._row(number, name, cells, labels, given)
        except Exception as error:  # a number of more digits than Python writes, an object that cannot say what it is
            return DataRow(number, name, problem=f"this row cannot be read ({in_a_line(error):.120})")

    def _row(
        self, number: int, name: str, cells: Mapping[str, Any], labels: Sequence[str] | None, given: Any
    ) -> DataRow:
        values = tuple(_plain(cells.get(text)) for text in self.texts)
        gold = None if self.gold is None else _plain(cells.get(self.gold))
        if labels is not None and isinstance(gold, int) and 0 <= gold < len(labels):
            gold = labels[gold]
        called = _plain(cells.get(self.id)) if self.id is not None else None
        missing = [text for text, value in zip(self.texts, values, strict=True) if _nothing(value)]
        return DataRow(
            number,
            name if _nothing(called) else str(called),
            given if given is not None else values[0] if len(values) == 1 else values,
            None if _nothing(gold) else _label(gold),
            f"there is nothing in column {missing[0]!r}" if missing else "",
        )


def _plain(value: Any) -> Any:
    """A number of numpy or torch as Python's."""
    return value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value


def _nothing(value: Any) -> bool:
    """None, and what pandas has for it."""
    return value is None or (isinstance(value, float) and value != value) or type(value).__name__ == "NAType"


def _label(gold: Any) -> str:
    """A whole number stays one, also where a column with gaps made it a float."""
    return str(int(gold)) if isinstance(gold, float) and gold.is_integer() else str(gold)


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
            lines = iterate_lines(file, path, longest=inf)
            if kind in _LINES:
                yield from _texts(lines, path, columns)
            elif kind in DELIMITED_SUFFIXES:
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
    # only for those who have such a file

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


def picture_rows(folder: Path) -> Iterator[DataRow]:
    """A picture that cannot be read is found out where it is explained."""
    for number, path in enumerate(picture_files(folder)):
        inside = path.relative_to(folder)
        yield DataRow(number, inside.as_posix(), path, inside.parts[0] if len(inside.parts) > 1 else None)


def picture_files(folder: Path) -> list[Path]:
    """All that are called like an image, in the folder and below it, in the order of their names."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    if not paths:
        there = ", ".join(sorted(path.name for path in folder.iterdir())[:3])
        raise InputError(
            f"the folder {folder} has no images in it ({there or 'nothing'}); give a file of texts, a folder of images "
            f"({', '.join(SUFFIXES[:4])}, …), or what datasets.load_from_disk makes of it"
        )
    return paths


KNOWN = (
    "a list or generator of texts, a pandas Series or DataFrame, a datasets.Dataset or IterableDataset, the path of a "
    ".txt, .csv, .tsv, .jsonl or .parquet file, or of a folder of images"
)

_COUNTED = 2**30
"""Bytes up to which a file is read once before the run, so that the time left can be told."""


@dataclass(frozen=True, eq=False)
class Source:
    """Rows in an order that is always the same. A generator can be read but once."""

    name: str
    rows: Iterator[DataRow]
    count: int | None = None
    """How many there are, where that is known before they are read."""


def source_of(data: Any, columns: Columns) -> Source:
    """The rows of what the caller holds; what cannot be one is an error that names what can."""
    for holds, make in _KINDS:
        if holds(data):
            made = make(data, columns)
            return Source(made.name, _not_empty(made), made.count)
    nearest = next((said for holds, said in _NEAREST if holds(data)), "")
    raise InputError(f"{quoted(type(data).__name__)} is no data set{nearest}; give {KNOWN}")


def _not_empty(source: Source) -> Iterator[DataRow]:
    first = next(source.rows, None)
    if first is None:
        raise InputError(f"{source.name} has no row in it: there is nothing to explain")
    return chain([first], source.rows)


def _path(data: str | PathLike[str], columns: Columns) -> Source:
    path = Path(path_of(data)).expanduser()
    if path.is_dir():
        if columns.any:
            raise InputError(f"{path.name} is a folder of images, which has no columns; leave column out")
        return Source(str(data), picture_rows(path.absolute()), len(picture_files(path)))
    if not path.is_file():
        hint = "; one text goes in a list: [text]" if isinstance(data, str) and " " in data else ""
        raise InputError(f"there is no file or folder {quoted(str(data))}{hint}")
    counted = path.stat().st_size <= _COUNTED
    return Source(path.name, file_rows(path, columns), sum(1 for _ in file_rows(path, columns)) if counted else None)


def _frame(data: Any, columns: Columns) -> Source:
    known = [str(name) for name in data.columns]  # they may be numbers
    found = columns.found("the DataFrame", known)
    own = None if _counts(data.index) else data.index
    cells = zip(*(data.iloc[:, known.index(name)] for name in found.names), strict=True)
    rows = (
        found.row(number, str(number if own is None else own[number]), dict(zip(found.names, values, strict=True)))
        for number, values in enumerate(cells)
    )
    return Source("the DataFrame", rows, len(data))


def _series(data: Any, columns: Columns) -> Source:
    if columns.gold or columns.id:
        raise InputError("a Series has one column; give the DataFrame for labels and ids")
    own = None if _counts(data.index) else data.index
    found = FoundColumns(("text",), None, None)
    rows = (
        found.row(number, str(number if own is None else own[number]), {"text": value})
        for number, value in enumerate(data)
    )
    return Source("the Series", rows, len(data))


def _counts(index: Any) -> bool:
    return type(index).__name__ == "RangeIndex"


def _dataset(data: Any, columns: Columns) -> Source:
    """Both kinds of the datasets library; a stream may not tell its columns before its first row.

    A format, such as tensors of torch, is for training: the cells are read as Python has them.
    """
    if getattr(data, "format", {}).get("type") != "custom":  # the caller's own transform makes the rows
        data = data.with_format(None)
    known = data.column_names
    rows: Iterator[Mapping[str, Any]] = iter(data)
    if known is None:
        first = next(rows, None)
        if first is None:
            return Source("the IterableDataset", iter(()))
        known, rows = list(first), chain([first], rows)
    found = columns.found(type(data).__name__, known)
    labels = getattr((data.features or {}).get(found.gold), "names", None) if found.gold is not None else None
    if hasattr(data, "__len__"):
        rows = iter(data.select_columns(found.names))
    return Source(
        f"the {type(data).__name__}",
        (found.row(number, str(number), cells, labels) for number, cells in enumerate(rows)),
        len(data) if hasattr(data, "__len__") else None,
    )


def _several(data: Iterable[Any], columns: Columns) -> Source:
    """Texts, pairs or images; or objects with columns, as a JSONL file has them."""
    name = f"the {type(data).__name__}"
    return Source(name, _each(iter(data), name, columns), len(data) if isinstance(data, (list, tuple)) else None)


def _each(data: Iterator[Any], name: str, columns: Columns) -> Iterator[DataRow]:
    found: FoundColumns | None = None
    for number, one in enumerate(data):
        if isinstance(one, Mapping) and columns.text is None and is_single_input(one):
            yield columns.beside(list(one)).row(number, str(number), one, given=one)
        elif isinstance(one, Mapping):
            cells = {str(key): value for key, value in one.items()}
            found = found or columns.found(name, list(cells))
            yield found.row(number, str(number), cells)
        elif columns.any:
            raise InputError(f"column was named, but row {number} of {name} is {quoted(one)}, which has no columns")
        else:
            yield DataRow(number, str(number), one, problem="there is nothing in this row" if one is None else "")


def _of_library(library: str, *names: str) -> Callable[[Any], bool]:
    """Whether a thing is of these classes, without a library being loaded that may not be there."""
    return lambda data: any(
        kind.__module__.split(".")[0] == library and kind.__name__ in names for kind in type(data).__mro__
    )


def _listed(data: Any) -> bool:
    return isinstance(data, (list, tuple)) or (hasattr(data, "__next__") and hasattr(data, "__iter__"))


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
    (_listed, _several),
    (lambda data: hasattr(data, "__code__"), _function),
)
"""How each kind is told, and read."""

_NEAREST: tuple[tuple[Callable[[Any], bool], str], ...] = (
    (
        lambda data: isinstance(data, Mapping),
        ", but pandas.DataFrame(data) is one, or a list of rows",
    ),
    (lambda data: isinstance(data, (set, frozenset)), ": a set has no order to go on in, sorted(data) has one"),
    (_of_library("torch", "DataLoader"), ", it gives batches; give what it was made of: data.dataset"),
    (lambda data: hasattr(data, "__iter__") or hasattr(data, "__getitem__"), ", but list(data) may be one"),
)
"""What is near to a data set, and how it becomes one."""


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
    """A Parquet file to read from, which is then read with `use_threads=False`.

    Arrow's threads do not end well with a process that loaded torch before them: it is aborted, though all was done.
    """
    return parquet().ParquetFile(file, pre_buffer=False, page_checksum_verification=True)
