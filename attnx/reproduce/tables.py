"""The result of a table: published, reproduced and difference side by side, as text, Markdown or JSON.

What is printed is what was measured. A difference is that of the two printed numbers; JSON has all digits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from attnx.agreement import Summary
from attnx.errors import FileFormatError
from attnx.render.columns import aligned, decimals, piped
from attnx.reproduce.protocols import Protocol, Reference

MeanDeviation = tuple[float, float]
Published = Mapping[str, tuple[MeanDeviation | None, ...]]
"""Method → mean and standard deviation at layers 1, 2, …; None at a layer that the paper does not print."""

FORMAT = 1


@dataclass(frozen=True)
class Measured:
    """One protocol's numbers: method → one summary for each layer, and the share of flow values that tie."""

    protocol: Protocol
    cells: Mapping[str, tuple[Summary, ...]]
    tied: tuple[float, ...]


@dataclass(frozen=True)
class Table:
    """A table of the paper, published and reproduced."""

    title: str
    reference: Reference
    published: Published
    measured: tuple[Measured, ...]
    samples: int
    source: str
    accuracy: float | None
    """Of the model on these very sentences; None where their labels are not public."""
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        """Aligned columns for the terminal, a block for each protocol."""
        return "\n\n".join(
            "\n".join([self._heading(one), "", aligned(list(_lines(self.published, one))), "", self._foot(one)])
            for one in self.measured
        )

    def markdown(self) -> str:
        """A Markdown table for each protocol, with a heading and a foot."""
        return "\n\n".join(
            "\n".join([f"**{self._heading(one)}**", "", piped(list(_lines(self.published, one))), "", self._foot(one)])
            for one in self.measured
        )

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self)}, ensure_ascii=False, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Table:
        """Read what `to_json` wrote."""
        data = json.loads(text)
        if not isinstance(data, dict) or data.pop("format", None) != FORMAT:
            raise FileFormatError(f"not a table that this attnx reads: expected format {FORMAT}")
        measured = tuple(
            Measured(
                Protocol(**one["protocol"]),
                {method: tuple(Summary(**cell) for cell in cells) for method, cells in one["cells"].items()},
                tuple(one["tied"]),
            )
            for one in data.pop("measured")
        )
        published = {
            method: tuple(None if cell is None else (cell[0], cell[1]) for cell in cells)
            for method, cells in data.pop("published").items()
        }
        return cls(published=published, measured=measured, **data)

    def _heading(self, measured: Measured) -> str:
        right = "" if self.accuracy is None else f" (model right in {self.accuracy:.1%})"
        return (
            f"{self.title}, {self.reference}, protocol {measured.protocol.name}: "
            f"{self.samples:,} sentences of {self.source}{right}"
        )

    def _foot(self, measured: Measured) -> str:
        undefined = max(cell.undefined for cells in measured.cells.values() for cell in cells)
        found = f"up to {undefined:,} in a cell" if undefined else "there are none"
        text = measured.protocol.describe(self.reference)
        return f"{text[0].upper()}{text[1:]} ({found})."


def _lines(published: Published, measured: Measured) -> Iterator[list[str]]:
    """The cells of the printed table, line by line, the head first."""
    layers = len(measured.tied)
    yield ["", "", *(f"L{layer}" for layer in range(1, layers + 1))]
    for method, cells in measured.cells.items():
        known: list[MeanDeviation | None] = [*published.get(method, ()), *[None] * layers][:layers]
        yield [method, "published", *("–" if one is None else _mean_deviation(*one) for one in known)]
        yield ["", "reproduced", *(_mean_deviation(cell.mean, cell.deviation) for cell in cells)]
        yield ["", "95 % of mean", *(_interval(cell) for cell in cells)]
        yield ["", "difference", *map(_difference, known, cells)]
        if any(cell.undefined for cell in cells):
            yield ["", "undefined", *(str(cell.undefined) for cell in cells)]
    yield ["", "tied share", *(f"{share:.0%}" for share in measured.tied)]


def _mean_deviation(mean: float | None, deviation: float | None) -> str:
    return "–" if mean is None else f"{decimals(mean)}±{decimals(deviation)}"


def _interval(cell: Summary) -> str:
    return "–" if cell.mean is None else f"{decimals(cell.low)} to {decimals(cell.high)}"


def _difference(published: MeanDeviation | None, cell: Summary) -> str:
    if published is None or cell.mean is None:
        return "–"
    difference = round(cell.mean, 2) - published[0]
    return f"+{decimals(difference)}" if difference > 0.005 else decimals(difference)
