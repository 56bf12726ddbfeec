"""Evaluations as sections of the HTML page."""

from __future__ import annotations

from typing import Any

from attnx.errors import InputError
from attnx.evaluation.compare import Comparison
from attnx.evaluation.faithfulness import Faithfulness
from attnx.evaluation.head_atlas import HeadAtlas
from attnx.evaluation.table import MARKS, EvaluationTable
from attnx.results import Explanation, unlayered
from attnx.statistics import Summary
from attnx.views import PlainTable, Shown, cell, number, with_baseline

TEXTS = 500
"""How many texts can be chosen from; the means are over all."""


def cell_data(table: EvaluationTable, method: str, column: str) -> dict[str, Any]:
    """The mean, its interval and the mark of its significance."""
    summary = table.cell(method, column)
    marked = table.baseline is not None and method in table.methods
    mark = MARKS[table.significance(method, column)] if marked else ""
    return {"mean": number(summary.mean), "low": number(summary.low), "high": number(summary.high), "mark": mark}


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
        "grids": {name: [[number(mean) for mean in row] for row in atlas.grid(name)] for name in atlas.values},
    }


def atlas_plain(page: dict[str, Any]) -> list[PlainTable]:
    """For each grid its layers, the last on top."""
    atlas = page["atlas"]
    tables = []
    for name, grid in atlas["grids"].items():
        rows = [[str(layer), *map(cell, row)] for layer, row in zip(atlas["layers"], grid, strict=True)]
        head = ["layer", *map(str, range(len(grid[0])))]
        tables.append(PlainTable(f"Heads, {name}: mean of {atlas['count']}", [head, *reversed(rows)]))
    return tables


def faithfulness_section(shown: Shown) -> dict[str, Any] | None:
    """Means with their 95 % intervals and marks of significance, chance last; and the mean curves."""
    result = shown.only(Faithfulness)
    if result is None:
        return None
    names = (*result.methods, result.baseline or "")
    return {
        "heading": result.heading(),
        "foot": " ".join(result.foot()),
        "score": result.score,
        "metrics": [result.label(column) for column in result.columns],
        "cells": {name: [cell_data(result, name, column) for column in result.columns] for name in names},
        "curves": {
            kind: {name: [number(score) for score in curves[name]] for name in names}
            for kind, curves in (("deletion", result.deletion), ("insertion", result.insertion))
        },
    }


def faithfulness_plain(page: dict[str, Any]) -> list[PlainTable]:
    """The four metrics of each method, with the marks of their significance."""
    data = page["faithfulness"]
    rows = [
        [name, *(f"{cell(item['mean'])} {item['mark']}".rstrip() for item in cells)]
        for name, cells in data["cells"].items()
    ]
    return [PlainTable(data["heading"], [["", *data["metrics"]], *rows])]


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
                "named": with_baseline(comparison.provenance, reference),
                "means": {
                    method: [
                        cell_data(comparison, method, column) | {"undefined": comparison.cell(method, column).undefined}
                        for column in comparison.columns_of(reference)
                    ]
                    for method in comparison.methods
                },
                "texts": {
                    method: [
                        [number(value) for value in row] for row in comparison.layer_values(method, reference)[:TEXTS]
                    ]
                    for method in comparison.methods
                },
                "others": {
                    other: number(Summary.of(values, seed=comparison.seed).mean) for other, values in others.items()
                },
            }
            for reference, others in comparison.ceiling.items()
        },
    }


def summary_plain(page: dict[str, Any]) -> list[PlainTable]:
    """For each reference the means by method and layer."""
    whole = page["summary"]
    tables = []
    for data in whole["references"].values():
        rows = [["layer", *map(str, whole["layers"])]]
        rows += [[method, *(cell(item["mean"]) for item in cells)] for method, cells in data["means"].items()]
        heading = f"Agreement with {data['named']}: {whole['measure']}, mean of {whole['count']}"
        tables.append(PlainTable(heading, rows))
    return tables


def _comparison_of(shown: Shown) -> Comparison | None:
    """The comparison that several results make together; None where they have nothing to compare with.

    Parts of one result, as the two of a text that was changed, are no sample of texts.
    """
    explanations = [result for result in shown.results if isinstance(result, Explanation)]
    if len(explanations) < 2 or not all(unlayered(explanation) for explanation in explanations):
        return None
    try:
        return Comparison.of(explanations)
    except InputError:  # of different models: each has its own table
        return None
