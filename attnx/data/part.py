"""A finished shard as a file: rows of cells become a table of Arrow, written as Parquet, and are read again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

from attnx.data.arrow import arrow, parquet, parquet_file
from attnx.data.manifest import Part
from attnx.data.place import Place
from attnx.data.question import PartAnswer
from attnx.errors import FileFormatError


def as_part(cells: Sequence[Mapping[str, Any]], schema: Any, told: Mapping[str, Any]) -> PartAnswer:
    """Rows with these columns; one that lacks a cell has nothing there. What is `told` of all is in the metadata."""
    pa, file = arrow(), BytesIO()
    whole = schema.with_metadata({"attnx": json.dumps(told)})
    columns = [pa.array([one.get(name) for one in cells], type=whole.field(name).type) for name in whole.names]
    table = pa.Table.from_arrays(columns, schema=whole)
    parquet().write_table(table, file, compression="zstd")
    return PartAnswer(file.getvalue(), sum(one.get("error") is not None for one in cells), table.nbytes)


def read_part(place: Place, part: Part, columns: Sequence[str] | None = None) -> Any:
    """The table of a part, all columns or these."""
    try:
        with place.opened(part.name) as file:
            wanted = None if columns is None else list(columns)
            return parquet_file(file).read(columns=wanted, use_threads=False)
    except (OSError, ValueError) as error:
        raise FileFormatError(
            f"{part.name} in {place.name} is damaged ({error!s:.80}); delete it, and the same command runs its rows "
            "again"
        ) from error
