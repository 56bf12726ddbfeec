"""A comparison to look at: tables of means by method and layer, and their curves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from attnx.agreement.summary import Summary
from attnx.errors import ChoiceError
from attnx.registry import unknown
from attnx.render.axes import LOOKS, given_or_new
from attnx.render.columns import TextBlock, decimals, noted
from attnx.render.plain_text import blanked_name
from attnx.results.comparison import Comparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LAYERS_SHOWN = 8
"""A terminal is 80 columns wide; of deeper models some layers are shown, the first and the last among them."""


def blocks(comparison: Comparison) -> Iterator[TextBlock]:
    """One for each reference."""
    count, noun = len(comparison.texts), "text" if any(comparison.texts) else "input"
    for reference in comparison.references:
        yield TextBlock(
            heading=f"Agreement with {blanked_name(comparison.provenance, reference)}: {comparison.measure}, "
            f"mean of {count} {noun}{'s' * (count > 1)}",
            lines=list(_lines(comparison, reference)),
            foot=tuple(_among(comparison, reference)),
        )
    yield from noted(comparison.notes, count)


def rows(comparison: Comparison) -> list[dict[str, Any]]:
    """A row for each text, reference, method and layer."""
    return [
        {"text": number, "reference": reference, "method": method, "layer": layer, comparison.measure: value}
        for reference, by_method in comparison.values.items()
        for method, values in by_method.items()
        for number, row in enumerate(values.tolist())
        for layer, value in zip(comparison.layers, row, strict=True)
    ]


def plot(comparison: Comparison, ax: Axes | None = None, reference: str | None = None) -> Any:
    if reference is not None and reference not in comparison.references:
        raise ChoiceError(unknown("reference", reference, comparison.references))
    if ax is not None or reference is not None:
        return _panel(comparison, reference or comparison.references[0], given_or_new(ax, 4.8, 3.4))
    from matplotlib import pyplot

    count = len(comparison.references)
    _, panels = pyplot.subplots(1, count, figsize=(4.2 * count, 3.4), sharey=True, squeeze=False, layout="constrained")
    for one, name in zip(panels[0], comparison.references, strict=True):
        _panel(comparison, name, one)
    return panels[0]


def _panel(comparison: Comparison, reference: str, ax: Axes) -> Axes:
    for number, method in enumerate(comparison.methods):
        cells = [(layer, comparison.cell(reference, method, layer)) for layer in comparison.layers]
        known = [(layer, cell) for layer, cell in cells if cell.mean is not None]
        colour, mark = LOOKS[number % len(LOOKS)]
        layers = [layer for layer, _ in known]
        mean, low, high = ([getattr(cell, end) for _, cell in known] for end in ("mean", "low", "high"))
        ax.plot(layers, mean, color=colour, marker=mark, markersize=4, label=method)
        ax.fill_between(layers, low, high, color=colour, alpha=0.15, linewidth=0)
    if comparison.measure != "top_k":
        ax.axhline(0, color="#888888", linewidth=0.8)
    ax.set_title(f"agreement with {reference}")
    ax.set_xlabel("layer")
    ax.set_ylabel(comparison.measure)
    ax.set_xticks(comparison.layers if len(comparison.layers) <= 12 else comparison.layers[::4])
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


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
        yield f"For scale: the {comparison.measure} of {other} with {reference} is {decimals(cell.mean)}."
