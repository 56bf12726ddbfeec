"""Tables, plots and page sections of comparisons, faithfulness, recommendations and the head atlas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from attnx.errors import ChoiceError, InputError
from attnx.evaluation.evaluation_table import (
    FEWEST_TEXTS,
    LEFT_OUT,
    MARKS,
    METRICS,
    MORE_IS_BETTER,
    RANDOM,
    Comparison,
    Faithfulness,
    Recommendation,
    orders_told,
)
from attnx.evaluation.head_atlas import CARRIED, HeadAtlas
from attnx.registry import unknown
from attnx.results import Explanation
from attnx.statistics import Summary
from attnx.views import (
    LOOKS,
    PlainTable,
    Shown,
    TextBlock,
    axes_or_new,
    blanked_name,
    cell,
    colour_map,
    decimals,
    number,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from attnx.evaluation.table import EvaluationTable

_NOTES = 5
"""So many are told; of a large file every text may have one of its own."""


def note_blocks(notes: Mapping[str, int], texts: int) -> list[TextBlock]:
    """What explanations of many texts note, the commonest first, with how many do; nothing where nothing is noted."""
    names = [
        f"{note} ({f'{count:,} beside these' if note.startswith(LEFT_OUT) else f'in {count:,} of'} {texts:,})"
        for note, count in list(notes.items())[:_NOTES]
    ]
    more = [f"… and {len(notes) - _NOTES:,} other notes"] if len(notes) > _NOTES else []
    return [TextBlock(foot=(*names, *more))] if names else []


_LAYERS_SHOWN = 8
"""A terminal is 80 columns wide; of deeper models some layers are shown, the first and the last among them."""


def plot_means(table: EvaluationTable, ax: Axes | None = None, column: str | None = None) -> Axes:
    """A line for each method, the best on top: its mean with the interval, filled where it is above chance."""
    names = table.ranking(column)[::-1]
    ax = axes_or_new(ax, 6.4, 0.8 + 0.28 * len(names))
    for place, name in enumerate(names):
        cell = table.cell(name, column)
        above = table.baseline is None or table.significance(name, column) == "above chance"
        colour = LOOKS[0][0] if above else "#888888"
        ax.hlines(place, cell.low or 0.0, cell.high or 0.0, color=colour, linewidth=1.6)
        fill = colour if above else "white"
        ax.plot([cell.mean or 0.0], [place], color=colour, marker="o", markersize=5, markerfacecolor=fill)
    if table.baseline is not None:
        chance = table.cell(table.baseline, column).mean or 0.0
        ax.axvline(chance, color="#666666", linestyle="--", linewidth=1)
        ax.text(chance, len(names) - 0.4, f" {table.baseline}", color="#666666", fontsize=8, va="bottom")
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(-0.7, len(names) + 0.3)
    ax.set_xlabel(table.label(column or table.columns[0]))
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def comparison_blocks(comparison: Comparison) -> Iterator[TextBlock]:
    """One for each reference."""
    count, noun = len(comparison.texts), "text" if any(comparison.texts) else "input"
    for reference in comparison.references:
        yield TextBlock(
            heading=f"Agreement with {blanked_name(comparison.provenance, reference)}: {comparison.measure}, "
            f"mean of {count} {noun}{'s' * (count > 1)}",
            lines=list(_lines(comparison, reference)),
            foot=tuple(_among(comparison, reference)),
        )
    yield from note_blocks(comparison.notes, count)


def comparison_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """A row for each text, reference, method and layer."""
    return [
        {"text": number, "reference": reference, "method": method, "layer": layer, comparison.measure: value}
        for reference, by_method in comparison.values.items()
        for method, values in by_method.items()
        for number, row in enumerate(values.tolist())
        for layer, value in zip(comparison.layers, row, strict=True)
    ]


def plot_comparison(comparison: Comparison, ax: Axes | None = None, reference: str | None = None) -> Any:
    if reference is not None and reference not in comparison.references:
        raise ChoiceError(unknown("reference", reference, comparison.references))
    if ax is not None or reference is not None:
        return _panel(comparison, reference or comparison.references[0], axes_or_new(ax, 4.8, 3.4))
    from matplotlib import pyplot

    count = len(comparison.references)
    _, panels = pyplot.subplots(1, count, figsize=(4.2 * count, 3.4), sharey=True, squeeze=False, layout="constrained")
    for panel, name in zip(panels[0], comparison.references, strict=True):
        _panel(comparison, name, panel)
    return panels[0]


def _panel(comparison: Comparison, reference: str, ax: Axes) -> Axes:
    for index, method in enumerate(comparison.methods):
        cells = [(layer, comparison.cell(reference, method, layer)) for layer in comparison.layers]
        known = [(layer, cell) for layer, cell in cells if cell.mean is not None]
        colour, mark = LOOKS[index % len(LOOKS)]
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


def faithfulness_blocks(faithfulness: Faithfulness) -> list[TextBlock]:
    table = TextBlock(
        faithfulness.heading(), lines=list(_faithfulness_lines(faithfulness)), foot=(faithfulness.foot(),)
    )
    return [table, *note_blocks(faithfulness.notes, len(faithfulness.values[RANDOM]))]


def faithfulness_rows(faithfulness: Faithfulness) -> list[dict[str, Any]]:
    """A row for each text and explainer, chance included."""
    return [
        {"text": number, "explainer": name, **dict(zip(METRICS, row, strict=True))}
        for name, values in faithfulness.values.items()
        for number, row in enumerate(values.tolist())
    ]


def plot_faithfulness(faithfulness: Faithfulness, axes: Any = None) -> Any:
    if axes is None:
        from matplotlib import pyplot

        _, axes = pyplot.subplots(1, 2, figsize=(9.6, 3.4), sharey=True, layout="constrained")
    titles = ("deletion: the most relevant go first", "insertion: the most relevant come first")
    for ax, curves, title in zip(axes, (faithfulness.deletion, faithfulness.insertion), titles, strict=True):
        shares = np.linspace(0, 100, 11)
        ax.plot(shares, curves[RANDOM], color="#666666", linestyle="--", label="random order")
        for index, name in enumerate(faithfulness.explainers):
            colour, mark = LOOKS[index % len(LOOKS)]
            ax.plot(shares, curves[name], color=colour, marker=mark, markersize=3.5, label=name)
        ax.set_title(title)
        ax.set_xlabel("% of positions")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel(f"{faithfulness.score} of the target")
    axes[1].legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return axes


def _faithfulness_lines(faithfulness: Faithfulness) -> Iterator[list[str]]:
    yield ["", *(f"{name} {'↑' if more else '↓'}" for name, more in MORE_IS_BETTER.items())]
    for name in (*faithfulness.explainers, RANDOM):
        means = [decimals(faithfulness.cell(name, metric).mean) for metric in METRICS]
        marks = ["" if name == RANDOM else MARKS[faithfulness.verdict(name, metric)] for metric in METRICS]
        yield [name, *(f"{mean} {mark}".rstrip() for mean, mark in zip(means, marks, strict=True))]


def recommendation_blocks(recommendation: Recommendation) -> list[TextBlock]:
    one = recommendation
    heading = (
        f"What holds on {one.texts} text{'s' * (one.texts > 1)}: the fall of the target's {one.score} without the "
        f"first {one.units}, at layer {one.layer}, blanked with {one.baseline}"
    )
    return [
        TextBlock(heading, (one.sentence(),), list(_recommendation_lines(one)), tuple(_foot(one))),
        *note_blocks(one.notes, one.texts),
    ]


def recommendation_rows(recommendation: Recommendation) -> list[dict[str, Any]]:
    """A row for each text and explainer, chance included."""
    return [
        {"text": number, "explainer": name, "comprehensiveness": value}
        for name in (*recommendation.explainers, RANDOM)
        for number, value in enumerate(recommendation.values[name].tolist())
    ]


def plot_recommendation(recommendation: Recommendation, ax: Axes | None = None) -> Axes:
    names = recommendation.explainers
    ax = axes_or_new(ax, 6.4, 0.8 + 0.28 * len(names))
    holds, good = LOOKS[0][0], recommendation.holds
    for place, name in enumerate(reversed(names)):
        cell = recommendation.cell(name)
        colour = holds if name in good else "#888888"
        ax.hlines(place, cell.low or 0.0, cell.high or 0.0, color=colour, linewidth=1.6)
        ax.plot(
            [float(recommendation.values[name].mean())],
            [place],
            color=colour,
            marker="o" if name in good else "x",
            markersize=5,
        )
    ax.axvline(float(recommendation.values[RANDOM].mean()), color="#666666", linestyle="--", linewidth=1)
    ax.set_yticks(range(len(names)), list(reversed(names)))
    ax.set_xlabel(
        f"fall of the target's {recommendation.score} without the first {recommendation.units}; dashed: random order"
    )
    ax.set_title(f"circle: told from chance on {recommendation.texts} texts", fontsize="medium")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _recommendation_lines(recommendation: Recommendation) -> Iterator[list[str]]:
    yield ["", "costs the answer", "95 %", "beyond chance", "behind the best", "forwards", "verdict"]
    for name in recommendation.explainers:
        cell, beyond, behind = (
            recommendation.cell(name),
            recommendation.beyond_chance(name),
            recommendation.behind_best(name),
        )
        first = name == recommendation.explainers[0]
        cost = recommendation.forwards.get(name)
        yield [
            name,
            decimals(cell.mean),
            _recommended_interval(cell),
            f"{decimals(beyond.mean)} [{_recommended_interval(beyond)}]",
            "" if first else f"{decimals(behind.mean)} [{_recommended_interval(behind)}]",
            "–" if cost is None else f"{cost:.0f}",
            _verdict(recommendation, name),
        ]
    chance = recommendation.cell(RANDOM)
    yield [RANDOM, decimals(chance.mean), _recommended_interval(chance), "", "", "", ""]


def _verdict(recommendation: Recommendation, name: str) -> str:
    if recommendation.texts < FEWEST_TEXTS:
        return "no verdict"
    if name not in recommendation.holds:
        return recommendation.verdict(name).replace("not told apart from chance", "cannot be told from chance")
    if name == recommendation.best:
        return "holds: the best"
    return "holds, behind the best" if recommendation.apart_from_best(name) else "holds, not told from the best"


def _foot(recommendation: Recommendation) -> Iterator[str]:
    yield (
        "Means over 1, 5, 10, 20 and 50 % of the positions; intervals of 95 % for each number alone, over the texts; "
        f"chance is {orders_told(recommendation.fewest_orders, recommendation.orders)} of each text."
    )
    yield (
        "Verdicts at 5 %, corrected for all explainers (against chance) and for all pairs (against the best) by the "
        "largest of all differences while the signs of texts are flipped."
    )
    if recommendation.signed:
        yield f"By sign: {', '.join(recommendation.signed)}."
    if recommendation.left_out:
        yield f"Left out: {'; '.join(f'{name} ({reason})' for name, reason in recommendation.left_out.items())}."


def _recommended_interval(cell: Summary) -> str:
    return "–" if cell.count < 2 else f"{decimals(cell.low)} {decimals(cell.high)}"


_BEST = 3
"""Heads that are named beneath a grid."""

_CELL = 0.38
"""Inches for a head or a layer."""

_WRITTEN = 12
"""Up to so many heads there is room for the number in each cell."""


def atlas_blocks(atlas: HeadAtlas) -> Iterator[TextBlock]:
    """A grid for "carried" and for each reference, the last layer on top, and the best heads of each."""
    count = len(atlas.texts)
    for by, values in atlas.values.items():
        lines = [["", *(f"h{head}" for head in range(atlas.heads))]]
        for layer, means in reversed(list(zip(atlas.layers, atlas.grid(by), strict=True))):
            lines.append([f"L{layer}", *(decimals(None if mean != mean else float(mean)) for mean in means)])
        best = ", ".join(
            f"layer {head_score.layer} head {head_score.head} ({decimals(head_score.summary.mean)})"
            for head_score in atlas.best(_BEST, by)
        )
        missing = int(np.isnan(values).sum())
        yield TextBlock(
            heading=f"{title(atlas, by).capitalize()}, mean of {count} text{'s' * (count > 1)}",
            lines=lines,
            foot=(
                *([f"Highest: {best}."] if best else []),
                *([f"Undefined and left out: {missing} of {values.size}."] if missing else []),
            ),
        )
    yield from note_blocks(atlas.notes, count)


def atlas_rows(atlas: HeadAtlas) -> list[dict[str, Any]]:
    """A row for each text, layer and head."""
    return [
        {"text": number, "layer": atlas.layers[layer], "head": head}
        | {name: float(values[number, layer, head]) for name, values in atlas.values.items()}
        for number, layer, head in np.ndindex(atlas.values[CARRIED].shape)
    ]


def title(atlas: HeadAtlas, by: str) -> str:
    """What a grid shows."""
    if by in atlas.references:
        return f"{atlas.method} against {by} ({atlas.measure})"
    return "carried from other words"


def plot_atlas(atlas: HeadAtlas, ax: Axes | None = None, by: str | None = None) -> Any:
    if ax is not None:
        return _atlas_panel(atlas, by or CARRIED, ax)
    from matplotlib import pyplot

    shown = list(atlas.values) if by is None else [by]
    size = (len(shown) * (atlas.heads * _CELL + 1.6), len(atlas.layers) * _CELL + 1.2)
    _, panels = pyplot.subplots(1, len(shown), figsize=size, squeeze=False, layout="constrained")
    for panel, name in zip(panels[0], shown, strict=True):
        _atlas_panel(atlas, name, panel)
    return panels[0] if by is None else panels[0][0]


def _atlas_panel(atlas: HeadAtlas, by: str, ax: Axes) -> Axes:
    grid = atlas.grid(by)
    if by in atlas.references and atlas.measure != "top_k":
        # Agreement has a sign: grey is none, and the two ends are told apart by the colour-blind, too.
        most = max(float(np.nanmax(np.abs(grid), initial=0.0)), 1e-9)
        look = {"cmap": colour_map(signed=True), "vmin": -most, "vmax": most}
    else:
        look = {"cmap": colour_map(signed=False), "vmin": 0.0}
    image = ax.imshow(grid, origin="lower", aspect="equal", **look)  # type: ignore[arg-type]
    ax.set_facecolor("#dddddd")  # undefined
    if atlas.heads <= _WRITTEN:
        for (layer, head), mean in np.ndenumerate(grid):
            colour = "white" if _is_dark(image, mean) else "black"
            label = decimals(None if mean != mean else mean)
            ax.text(head, layer, label, ha="center", va="center", color=colour, fontsize=6.5)
    ax.set_title(title(atlas, by), fontsize=9)
    ax.set_xlabel("head")
    ax.set_ylabel("layer")
    step = 1 if atlas.heads <= 16 else 4
    ax.set_xticks(range(0, atlas.heads, step))
    ax.set_yticks(range(len(atlas.layers)), [str(layer) for layer in atlas.layers])
    ax.tick_params(length=0, labelsize=8)
    ax.spines[:].set_visible(False)
    bar = ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.04)
    bar.ax.tick_params(labelsize=7, length=2)
    bar.outline.set_visible(False)
    return ax


def _is_dark(image: Any, value: float) -> bool:
    """Whether white is easier to read on a cell than black."""
    red, green, blue, _ = image.cmap(image.norm(value))
    return bool(0.299 * red + 0.587 * green + 0.114 * blue < 0.5)


def atlas_section(shown: Shown) -> dict[str, Any] | None:
    """Means over the texts: what each head carries, and its agreement with each reference; None where undefined."""
    atlas = shown.only(HeadAtlas)
    if atlas is None:
        return None
    return {
        "method": atlas.method,
        "measure": atlas.measure,
        "layers": list(atlas.layers),
        "count": len(atlas.texts),
        "references": list(atlas.references),
        "grids": {name: [[number(one) for one in row] for row in atlas.grid(name)] for name in atlas.values},
    }


def atlas_plain(page: dict[str, Any]) -> list[PlainTable]:
    """For each grid its layers, the last on top."""
    found = page["atlas"]
    tables = []
    for name, grid in found["grids"].items():
        rows = [[str(layer), *map(cell, row)] for layer, row in zip(found["layers"], grid, strict=True)]
        head = ["layer", *map(str, range(len(grid[0])))]
        tables.append(PlainTable(f"Heads, {name}: mean of {found['count']}", [head, *reversed(rows)]))
    return tables


def faithfulness_section(shown: Shown) -> dict[str, Any] | None:
    """Means with their 95 % intervals and marks of the verdicts, chance last; and the mean curves."""
    result = shown.only(Faithfulness)
    if result is None:
        return None
    names = (*result.explainers, RANDOM)
    return {
        "heading": result.heading(),
        "foot": result.foot(),
        "score": result.score,
        "metrics": [f"{name} {'↑' if more else '↓'}" for name, more in MORE_IS_BETTER.items()],
        "cells": {name: [_cell(result, name, metric) for metric in MORE_IS_BETTER] for name in names},
        "curves": {
            kind: {name: [number(one) for one in getattr(result, kind)[name]] for name in names}
            for kind in ("deletion", "insertion")
        },
    }


def faithfulness_plain(page: dict[str, Any]) -> list[PlainTable]:
    """The four numbers of each explainer, with the marks of their verdicts."""
    found = page["faithfulness"]
    rows = [
        [name, *(f"{cell(one['mean'])} {one['mark']}".rstrip() for one in cells)]
        for name, cells in found["cells"].items()
    ]
    return [PlainTable(found["heading"], [["", *found["metrics"]], *rows])]


def _cell(result: Faithfulness, name: str, metric: str) -> dict[str, Any]:
    summary = result.cell(name, metric)
    mark = "" if name == RANDOM else MARKS[result.verdict(name, metric)]
    return {"mean": number(summary.mean), "low": number(summary.low), "high": number(summary.high), "mark": mark}


TEXTS = 500
"""So many texts can be picked; the means are over all."""


def summary_section(shown: Shown) -> dict[str, Any] | None:
    """Means with their 95 % intervals for each reference, method and layer, and the same of each text."""
    comparison = shown.only(Comparison) or _comparison_of(shown)
    if comparison is None:
        return None
    return {
        "measure": comparison.measure,
        "layers": list(comparison.layers),
        "count": len(comparison.texts),
        "texts": list(comparison.texts[:TEXTS]),
        "references": {
            reference: {
                "named": blanked_name(comparison.provenance, reference),
                "means": {method: _cells(comparison, reference, method) for method in comparison.methods},
                "texts": {
                    method: [[number(one) for one in row] for row in values[:TEXTS]]
                    for method, values in by_method.items()
                },
                "others": _others(comparison, reference),
            }
            for reference, by_method in comparison.values.items()
        },
    }


def summary_plain(page: dict[str, Any]) -> list[PlainTable]:
    """For each reference the means by method and layer."""
    whole = page["summary"]
    tables = []
    for found in whole["references"].values():
        rows = [["layer", *map(str, whole["layers"])]]
        rows += [[method, *(cell(one["mean"]) for one in cells)] for method, cells in found["means"].items()]
        heading = f"Agreement with {found['named']}: {whole['measure']}, mean of {whole['count']}"
        tables.append(PlainTable(heading, rows))
    return tables


def _comparison_of(shown: Shown) -> Comparison | None:
    """The comparison that several results make together; None where they carry nothing to compare with.

    Parts of one result, as the two of a text that was changed, are no sample of texts.
    """
    explanations = [result for result in shown.results if isinstance(result, Explanation)]
    if len(explanations) < 2 or not all(explanation.references for explanation in explanations):
        return None
    try:
        return Comparison.of(explanations)
    except InputError:  # of different models: each has its own table
        return None


def _cells(comparison: Comparison, reference: str, method: str) -> list[dict[str, Any]]:
    cells = [comparison.cell(reference, method, layer) for layer in comparison.layers]
    return [
        {
            "mean": number(summary.mean),
            "low": number(summary.low),
            "high": number(summary.high),
            "undefined": summary.undefined,
        }
        for summary in cells
    ]


def _others(comparison: Comparison, reference: str) -> dict[str, float | None]:
    """How far the other references agree with this one: what can be hoped for at all."""
    items_view = comparison.ceiling[reference].items()
    return {other: number(Summary.of(values, seed=comparison.seed).mean) for other, values in items_view}
