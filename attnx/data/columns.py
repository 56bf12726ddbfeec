"""Which columns of a table have the texts, the labels and the names of its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from attnx.data.row import DataRow
from attnx.errors import InputError, in_a_line
from attnx.inputs.files import LABEL_COLUMNS, check_column, text_column

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
            found = self.beside(known, texts)
            for name in (found.gold, found.id):
                if name is not None:
                    check_column(name, known)
        except InputError as error:
            raise type(error)(str(error) if str(error).startswith(source) else f"{source}: {error}") from None
        return found

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
        values = tuple(_plain(cells.get(one)) for one in self.texts)
        gold = None if self.gold is None else _plain(cells.get(self.gold))
        if labels is not None and isinstance(gold, int) and 0 <= gold < len(labels):
            gold = labels[gold]
        called = _plain(cells.get(self.id)) if self.id is not None else None
        missing = [one for one, value in zip(self.texts, values, strict=True) if _nothing(value)]
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
