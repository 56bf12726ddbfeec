"""What users hold, as rows: a list, a generator, a table of pandas or datasets, a file, a folder of images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any

from attnx.arguments import path_of
from attnx.data.columns import Columns, FoundColumns
from attnx.data.files import file_rows
from attnx.data.pictures import picture_files, picture_rows
from attnx.data.row import DataRow
from attnx.errors import InputError
from attnx.inputs.given import is_one_input
from attnx.registry import quoted

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
        if isinstance(one, Mapping) and columns.text is None and is_one_input(one):
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
