"""A comparison as text, Markdown and pandas table."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np

from attnx.agreement import Summary
from attnx.errors import AttnxError
from attnx.render.columns import aligned, decimals, piped

if TYPE_CHECKING:
    import pandas

    from attnx.comparison.comparison import Comparison

_LAYERS_SHOWN = 8
"""A terminal is 80 columns wide; of deeper models some layers are shown, the first and the last among them."""


def text(comparison: Comparison) -> str:
    return _blocks(comparison, aligned, lambda heading: heading)


def markdown(comparison: Comparison) -> str:
    return _blocks(comparison, piped, lambda heading: f"**{heading}**")


def to_frame(comparison: Comparison) -> pandas.DataFrame:
    try:
        import pandas
    except ImportError as error:
        raise AttnxError("to_frame needs pandas: pip install pandas") from error
    return pandas.DataFrame(_rows(comparison))


def to_csv(comparison: Comparison) -> str:
    written = StringIO()
    table = csv.writer(written, lineterminator="\n")
    table.writerow(["text", "reference", "method", "layer", comparison.measure])
    table.writerows(["" if value != value else value for value in row.values()] for row in _rows(comparison))
    return written.getvalue()


def _rows(comparison: Comparison) -> list[dict[str, Any]]:
    return [
        {"text": number, "reference": reference, "method": method, "layer": layer, comparison.measure: value}
        for reference, by_method in comparison.values.items()
        for method, values in by_method.items()
        for number, row in enumerate(values.tolist())
        for layer, value in zip(comparison.layers, row, strict=True)
    ]


def _blocks(comparison: Comparison, table: Callable[[list[list[str]]], str], emphasise: Callable[[str], str]) -> str:
    blocks = []
    for reference in comparison.references:
        count = len(comparison.texts)
        noun = "text" if any(comparison.texts) else "input"
        heading = f"Agreement with {reference}: {comparison.measure}, mean of {count} {noun}{'s' * (count > 1)}"
        lines = [emphasise(heading), "", table(list(_lines(comparison, reference)))]
        among = list(_among(comparison, reference))
        blocks.append("\n".join(lines + (["", *among] if among else [])))
    return "\n\n".join(blocks)


def _lines(comparison: Comparison, reference: str) -> Iterator[list[str]]:
    shown = _shown(comparison.layers)
    alone = len(comparison.texts) == 1
    head = ["", *(f"L{layer}" for layer in shown)]
    yield head if alone else [*head, f"95 % at L{comparison.layers[-1]}", "undefined"]
    for method in comparison.methods:
        cells = [comparison.cell(reference, method, layer) for layer in shown]
        line = [method, *(decimals(cell.mean) for cell in cells)]
        yield line if alone else [*line, _interval(cells[-1]), _undefined(cells)]


def _shown(layers: tuple[int, ...]) -> list[int]:
    if len(layers) <= _LAYERS_SHOWN:
        return list(layers)
    places = np.linspace(0, len(layers) - 1, _LAYERS_SHOWN).round().astype(int)
    return [layers[place] for place in places]


def _interval(cell: Summary) -> str:
    return "–" if cell.count < 2 else f"{decimals(cell.low)} to {decimals(cell.high)}"


def _undefined(cells: list[Summary]) -> str:
    most = max(cell.undefined for cell in cells)
    return f"up to {most}" if len({cell.undefined for cell in cells}) > 1 else str(most)


def _among(comparison: Comparison, reference: str) -> Iterator[str]:
    for other, values in comparison.ceiling[reference].items():
        cell = Summary.of(values, seed=comparison.seed)
        yield f"For scale: {other} agrees with {reference} at {decimals(cell.mean)}."
