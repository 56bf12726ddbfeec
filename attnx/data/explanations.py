"""The question that `explain_dataset` asks: rows become explanations, and explanations an Arrow table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from attnx.data.answered import answered, first_answers
from attnx.data.cells import explained_cells, is_right, named_cells
from attnx.data.fingerprint import as_setting
from attnx.data.layout import FORMAT, Layout
from attnx.data.part import as_part
from attnx.data.question import PartAnswer, Tick
from attnx.data.row import DataRow
from attnx.explaining.attempt import Postponed, Refused
from attnx.explaining.call import Choices
from attnx.explaining.seam import Request
from attnx.explaining.settings import Settings
from attnx.methods.registry import PAPER_METHODS
from attnx.results.explanation import Explanation
from attnx.results.storage import plain
from attnx.running.batches import forget_padding

T = TypeVar("T")


@dataclass(frozen=True)
class ExplanationsQuestion:
    """Asked with these options of `explain`."""

    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return "explanations"

    def settings(self) -> dict[str, Any]:
        return {name: as_setting(value) for name, value in sorted(self.options.items()) if value is not None}

    def begin(self, model: Any, processor: Any, rows: Sequence[DataRow]) -> dict[str, Any]:
        asked = Choices.of(model, **self.options)
        seen = first_answers(rows, lambda some: _explained(asked, processor, some, lambda one: one, lambda: None))
        layout = Layout.of(_methods(asked.settings), tuple(asked.references), seen)
        made: dict[str, Any] = plain(asdict(layout))
        return made

    def part(
        self, model: Any, processor: Any, rows: Sequence[DataRow], layout: Mapping[str, Any], tick: Tick
    ) -> PartAnswer:
        kept = Layout.from_dict(layout)
        asked = Choices.of(model, **self.options)
        found = _explained(asked, processor, rows, lambda one: explained_cells(one, kept), tick)
        cells = [_cells(row, found[row.number]) for row in rows if not isinstance(found[row.number], Postponed)]
        return as_part(cells, kept.schema(), {"format": FORMAT, **layout})


def _explained(
    asked: Choices, processor: Any, rows: Sequence[DataRow], kept: Callable[[Explanation], T], tick: Tick
) -> dict[int, T | Refused]:
    """The number of each row, and what is kept of its explanation, or why there is none.

    Rows that are the same are explained once. Batches are composed of these rows alone, and padding is tried on them:
    nothing that ran before has a say.
    """
    first: dict[str, DataRow] = {}
    for row in rows:
        first.setdefault(row.sha256 + row.problem, row)
    forget_padding(asked.model)

    def run(requests: Sequence[Request]) -> list[T]:
        made: dict[int, T] = {}
        for number, explanation in asked.call(processor, requests).explanations():
            made[number] = kept(explanation)
            tick()
        return [made[number] for number in range(len(requests))]

    found = answered(list(first.values()), lambda given: asked.requests(processor, given)[0], run)
    return {row.number: found[first[row.sha256 + row.problem].number] for row in rows}


def _cells(row: DataRow, found: Mapping[str, Any] | Refused) -> dict[str, Any]:
    if isinstance(found, Refused):
        return named_cells(row, found.reason)
    cells = {**named_cells(row), **found}
    return {**cells, "right": is_right(cells)}


def _methods(settings: Settings) -> tuple[str, ...]:
    return PAPER_METHODS if settings.methods is None else tuple(one.name for one in settings.methods)
