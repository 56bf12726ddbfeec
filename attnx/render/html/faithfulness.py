"""Faithfulness in a page: four numbers for each explainer beside chance, and the curves that two of them measure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attnx.comparison.faithfulness_table import MARKS, MORE_IS_BETTER, RANDOM
from attnx.render.html.correlations import number

if TYPE_CHECKING:
    from attnx.comparison import Faithfulness


def faithfulness_of(result: Faithfulness) -> dict[str, Any]:
    """Means with their 95 % intervals and marks of the verdicts, chance last; and the mean curves."""
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


def _cell(result: Faithfulness, name: str, metric: str) -> dict[str, Any]:
    found = result.cell(name, metric)
    mark = "" if name == RANDOM else MARKS[result.verdict(name, metric)]
    return {"mean": number(found.mean), "low": number(found.low), "high": number(found.high), "mark": mark}
