"""A finished shard as a file: rows of cells become a table of Arrow, written as Parquet, and are read again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

from attnx.data.arrow import arrow, parquet, parquet_file
from attnx.data.manifest import Part, content_digest
from attnx.data.place import Place
from attnx.data.question import PartAnswer
from attnx.errors import FileFormatError


def as_part(cells: Sequence[Mapping[str, Any]], schema: Any, told: Mapping[str, Any]) -> PartAnswer:
    """Rows with these columns; one that lacks a cell has nothing there. What is `told` of all is in the metadata."""
    pa, file = arrow(), BytesIO()
    whole = schema.with_metadata({"attnx": json.dumps(told)})
    columns = [pa.array([one.get(name) for one in cells], type=whole.field(name).type) for name in whole.names]
    table = pa.Table.from_arrays(columns, schema=whole)
    parquet().write_table(table, file, compression="zstd", write_page_checksum=True)
    failed = sum(one.get("error") is not None for one in cells)
    return PartAnswer(file.getvalue(), failed, len(cells), table.nbytes)


def intact(place: Place, part: Part) -> bool:
    """Whether the file is the one that was written under this name."""
    return content_digest(place.read(part.name)) == part.content


def read_part(
    place: Place, part: Part, shard_rows: int, *, schema: Any = None, columns: Sequence[str] | None = None
) -> Any:
    """The table of a part, all columns or these.

    It must be the file that was written, hold the rows that its name says, and have the columns of a given `schema`.
    """
    content = place.read(part.name)
    try:
        if content_digest(content) != part.content:
            raise ValueError("its content is not what was written")
        file = parquet_file(arrow().BufferReader(content))
        if schema is not None and not file.schema_arrow.equals(schema):
            raise ValueError("it has other columns than the run")
        names = file.schema_arrow.names if columns is None else list(columns)
        table = file.read(columns=list({"row": None, **dict.fromkeys(names)}), use_threads=False)
        table.validate(full=True)
        rows = table["row"].to_pylist()
        if len(rows) != part.rows or any(row is None or row // shard_rows != part.number for row in rows):
            raise ValueError("its rows are those of another part")
        return table.select(names)
    except (OSError, ValueError, KeyError) as error:
        raise FileFormatError(
            f"{part.name} in {place.name} is damaged ({error!s:.80}); the same command runs its rows again"
        ) from error
