"""Faithfulness: four numbers for each explainer beside chance, and the curves that two of them measure."""

from __future__ import annotations

from typing import Any

from attnx.render.page.plain import PlainTable, cell
from attnx.render.page.reduction import number
from attnx.render.page.shown import Shown
from attnx.results.faithfulness import MARKS, MORE_IS_BETTER, RANDOM, Faithfulness


def data(shown: Shown) -> dict[str, Any] | None:
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


def plain(page: dict[str, Any]) -> list[PlainTable]:
    """The four numbers of each explainer, with the marks of their verdicts."""
    found = page["faithfulness"]
    rows = [
        [name, *(f"{cell(one['mean'])} {one['mark']}".rstrip() for one in cells)]
        for name, cells in found["cells"].items()
    ]
    return [PlainTable(found["heading"], [["", *found["metrics"]], *rows])]


def _cell(result: Faithfulness, name: str, metric: str) -> dict[str, Any]:
    found = result.cell(name, metric)
    mark = "" if name == RANDOM else MARKS[result.verdict(name, metric)]
    return {"mean": number(found.mean), "low": number(found.low), "high": number(found.high), "mark": mark}
