"""The question that `explain_dataset` asks: rows become explanations, and explanations an Arrow table."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from io import BytesIO
from typing import Any, TypeVar

from attnx.data.arrow import arrow, parquet
from attnx.data.cells import explained_cells, is_right, named_cells
from attnx.data.layout import FORMAT, Layout
from attnx.data.question import Answer, Tick
from attnx.data.row import Row
from attnx.errors import InputError, in_a_line
from attnx.explaining.attempt import Refused, attempt
from attnx.explaining.call import Choices
from attnx.explaining.seam import Request
from attnx.explaining.settings import Settings
from attnx.methods.registry import PAPER_METHODS
from attnx.results.explanation import Explanation
from attnx.results.recommendation import Recommendation
from attnx.results.storage import plain
from attnx.running.batches import forget_padding

T = TypeVar("T")

_TRIED = 8
"""Rows that are explained before the run, to see what it will hold and how long it will take."""


@dataclass(frozen=True)
class Explanations:
    """Asked with these options of `explain`."""

    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return "explanations"

    @property
    def suffix(self) -> str:
        return ".parquet"

    def settings(self) -> dict[str, Any]:
        return {name: told(value) for name, value in sorted(self.options.items()) if value is not None}

    def begin(self, model: Any, processor: Any, rows: Sequence[Row]) -> dict[str, Any]:
        asked = Choices.of(model, **self.options)
        seen, reasons = [], []
        for start in range(0, len(rows), _TRIED):
            found = answered(asked, processor, rows[start : start + _TRIED], lambda one: one, lambda: None)
            seen = [one for one in found.values() if isinstance(one, Explanation)]
            reasons += [f"row {number}: {one.reason}" for number, one in found.items() if isinstance(one, Refused)]
            if seen:
                break
        if not seen:
            raise InputError(f"none of the first {len(rows):,} rows can be explained; {reasons[0]}")
        layout = Layout.of(_methods(asked.settings), tuple(asked.references), seen)
        made: dict[str, Any] = plain(asdict(layout))
        return made

    def part(self, model: Any, processor: Any, rows: Sequence[Row], layout: Mapping[str, Any], tick: Tick) -> Answer:
        kept = Layout.from_dict(layout)
        asked = Choices.of(model, **self.options)
        found = answered(asked, processor, rows, lambda one: explained_cells(one, kept), tick)
        cells = [_cells(row, found[row.number]) for row in rows]
        schema = kept.schema().with_metadata({"attnx": json.dumps({"format": FORMAT, **layout})})
        pa, file = arrow(), BytesIO()
        columns = [pa.array([one.get(name) for one in cells], type=schema.field(name).type) for name in schema.names]
        table = pa.Table.from_arrays(columns, schema=schema)
        parquet().write_table(table, file, compression="zstd")
        return Answer(file.getvalue(), sum("error" in one for one in cells), table.nbytes)


def answered(
    asked: Choices, processor: Any, rows: Sequence[Row], kept: Callable[[Explanation], T], tick: Tick
) -> dict[int, T | Refused]:
    """The number of each row, and what is kept of its explanation, or why there is none.

    Rows that are the same are explained once. Batches are composed of these rows alone, and padding is tried on them:
    nothing that ran before has a say.
    """
    first: dict[str, Row] = {}
    for row in rows:
        first.setdefault(row.sha256 + row.problem, row)
    requests: dict[str, Request] = {}
    found: dict[str, T | Refused] = {}
    for key, row in first.items():
        try:
            requests[key] = _request(asked, processor, row)
        except MemoryError:
            raise
        except Exception as error:  # whatever a tokenizer has against a text
            found[key] = Refused(in_a_line(error))
    forget_padding(asked.model)

    def run(keys: Sequence[str]) -> list[T]:
        made: dict[int, T] = {}
        for number, explanation in asked.call(processor, [requests[key] for key in keys]).explanations():
            made[number] = kept(explanation)
            tick()
        return [made[number] for number in range(len(keys))]

    found |= dict(zip(requests, attempt(list(requests), run), strict=True))
    return {row.number: found[row.sha256 + row.problem] for row in rows}


def told(value: Any) -> Any:
    """An option as a manifest keeps it."""
    if isinstance(value, Recommendation):
        return f"recommendation {sha256(value.to_json().encode()).hexdigest()}"
    if isinstance(value, Mapping):
        return {str(name): told(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [told(one) for one in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)


def _request(asked: Choices, processor: Any, row: Row) -> Request:
    if row.problem:
        raise InputError(row.problem)
    requests, _ = asked.requests(processor, row.given)
    if len(requests) != 1:
        raise InputError(f"a row is one input, found a batch of {len(requests)}; give each a row")
    return requests[0]


def _cells(row: Row, found: Mapping[str, Any] | Refused) -> dict[str, Any]:
    if isinstance(found, Refused):
        return named_cells(row, found.reason)
    cells = {**named_cells(row), **found}
    return {**cells, "right": is_right(cells)}


def _methods(settings: Settings) -> tuple[str, ...]:
    return PAPER_METHODS if settings.methods is None else tuple(one.name for one in settings.methods)
