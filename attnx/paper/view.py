"""Tables over many trainings to read: the paper's value, the models', and whether the one lies among the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from attnx.paper.table import (
    ByProtocol,
    MeanDeviation,
    Published,
    SubjectTable,
    Table,
)
from attnx.statistics import Summary
from attnx.views import LOOKS, TextBlock, decimals

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARTS = ("subject", "attractors", "other", "subject_first")


def table_blocks(table: Table) -> Iterator[TextBlock]:
    """One for each protocol."""
    right = "" if table.accuracy is None else f" (model right in {table.accuracy:.1%}{_chance(table)})"
    for one in table.measured:
        about = f"{table.title}, {table.reference}, protocol {one.protocol.name}"
        undefined = max(cell.undefined for cells in one.cells.values() for cell in cells)
        name = f"up to {undefined:,} in a cell" if undefined else "there are none"
        described = one.protocol.describe(table.reference)
        yield TextBlock(
            heading=f"{about}: {table.samples:,} sentences of {table.source}{right}",
            lines=list(_table_lines(table.published, one)),
            foot=(f"{described[0].upper()}{described[1:]} ({name}).",),
        )


def _chance(table: Table) -> str:
    """Whether the model knows the task at all, which its numbers rest on."""
    if table.majority is None or table.accuracy is None or table.accuracy > table.majority:
        return ""
    if table.majority == 1:
        return ", but all sentences have the same answer"
    return f", NO BETTER THAN ALWAYS THE MOST FREQUENT ANSWER: {table.majority:.1%}"


def table_rows(table: Table) -> list[dict[str, Any]]:
    """A row for each protocol, method and layer."""
    return [
        {
            "protocol": one.protocol.name,
            "method": method,
            "layer": layer,
            "published": None if known is None else known[0],
            **vars(cell),
        }
        for one in table.measured
        for method, cells in one.cells.items()
        for layer, (known, cell) in enumerate(zip(_known(table.published, method, cells), cells, strict=True), 1)
    ]


def plot_table(table: Table) -> Figure:
    """A panel for each protocol: the means by layer with their 95 % intervals, those of the paper dashed."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.4 * len(table.measured), 3.4), layout="constrained")
    panels = figure.subplots(1, len(table.measured), sharey=True, squeeze=False)[0]
    for ax, one in zip(panels, table.measured, strict=True):
        for number, (method, cells) in enumerate(one.cells.items()):
            colour, mark = LOOKS[number % len(LOOKS)]
            known = [(layer, cell) for layer, cell in enumerate(cells, 1) if cell.mean is not None]
            mean, low, high = ([getattr(cell, end) for _, cell in known] for end in ("mean", "low", "high"))
            layers = [layer for layer, _ in known]
            ax.plot(layers, mean, color=colour, marker=mark, markersize=4, label=method)
            ax.fill_between(layers, low, high, color=colour, alpha=0.15, linewidth=0)
            paper = {layer: cell[0] for layer, cell in enumerate(table.published.get(method, ()), 1) if cell}
            ax.plot(list(paper), list(paper.values()), color=colour, linestyle="--")
        ax.set_title(f"{table.title}, {one.protocol.name}", fontsize=10)
        ax.set_xlabel("layer")
        ax.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel(f"correlation with {table.reference}")
    panels[-1].legend(frameon=False)
    return figure


def subject_blocks(table: SubjectTable) -> list[TextBlock]:
    unknown = "" if table.attractors_known else " Attractors are not marked in this data: they are among other words."
    return [
        TextBlock(
            heading=f"Relevance of words for CLS at layer {table.layer}: sentences of {table.source}",
            lines=list(_subject_lines(table)),
            foot=(
                "Mean shares of what falls on words, special tokens aside. Even spread is what chance gives." + unknown,
            ),
        )
    ]


def subject_rows(table: SubjectTable) -> list[dict[str, Any]]:
    """A row for each measure, kind of prediction and part of the sentence."""
    return [
        {"predictions": share.predictions, "measure": share.measure, "part": part, **vars(getattr(share, part))}
        for share in table.shares
        for part in PARTS
    ]


def plot_subject(table: SubjectTable) -> Figure:
    """A panel for right and one for wrong predictions: the share of the subject by each measure."""
    from matplotlib.figure import Figure

    kinds = list(dict.fromkeys(share.predictions for share in table.shares))
    figure = Figure(figsize=(4.4 * len(kinds), 3.2), layout="constrained")
    for ax, kind in zip(figure.subplots(1, len(kinds), sharex=True, squeeze=False)[0], kinds, strict=True):
        shown = [share for share in table.shares if share.predictions == kind and share.subject.mean is not None]
        for place, shares in enumerate(reversed(shown)):
            mean, low, high = (100 * (getattr(shares.subject, end) or 0.0) for end in ("mean", "low", "high"))
            ax.barh(place, mean, xerr=[[max(0.0, mean - low)], [max(0.0, high - mean)]], color=LOOKS[0][0])
        ax.set_yticks(range(len(shown)), [one.measure for one in reversed(shown)])
        ax.set_title(f"{kind} predictions", fontsize=10)
        ax.set_xlabel("% of relevance on the subject")
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def _table_lines(published: Published, measured: ByProtocol) -> Iterator[list[str]]:
    """The cells of the printed table, line by line, the head first."""
    yield ["", "", *(f"L{layer}" for layer in range(1, len(measured.tied) + 1))]
    for method, cells in measured.cells.items():
        known = _known(published, method, cells)
        reproduced = [_mean_deviation(cell.mean, cell.deviation) for cell in cells]
        if method in published:
            yield [method, "published", *("–" if one is None else _mean_deviation(*one) for one in known)]
        yield ["" if method in published else method, "reproduced", *reproduced]
        yield ["", "95 % of mean", *(_interval(cell) for cell in cells)]
        if method in published:
            yield ["", "difference", *map(_difference, known, cells)]
        if any(cell.undefined for cell in cells):
            yield ["", "undefined", *(str(cell.undefined) for cell in cells)]
    yield ["", "tied share", *(f"{share:.0%}" for share in measured.tied)]


def _known(published: Published, method: str, cells: tuple[Summary, ...]) -> list[MeanDeviation | None]:
    return [*published.get(method, ()), *[None] * len(cells)][: len(cells)]


def _subject_lines(table: SubjectTable) -> Iterator[list[str]]:
    yield ["predictions", "measure", "subject", "95 % of mean", "attractors", "other words", "subject first"]
    for index, share in enumerate(table.shares):
        total = share.subject.count + share.subject.undefined
        is_new = index == 0 or table.shares[index - 1].predictions != share.predictions
        yield [
            f"{share.predictions} ({total:,})" if is_new else "",
            share.measure,
            _percent(share.subject.mean),
            f"{_percent(share.subject.low)} to {_percent(share.subject.high)}",
            _percent(share.attractors.mean) if table.attractors_known else "–",
            _percent(share.other.mean),
            _percent(share.subject_first.mean),
        ]


def _mean_deviation(mean: float | None, deviation: float | None) -> str:
    return "–" if mean is None else f"{decimals(mean)}±{decimals(deviation)}"


def _interval(cell: Summary) -> str:
    return "–" if cell.mean is None else f"{decimals(cell.low)} to {decimals(cell.high)}"


def _difference(published: MeanDeviation | None, cell: Summary) -> str:
    if published is None or cell.mean is None:
        return "–"
    difference = round(cell.mean, 2) - published[0]
    return f"+{decimals(difference)}" if difference > 0.005 else decimals(difference)


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"
