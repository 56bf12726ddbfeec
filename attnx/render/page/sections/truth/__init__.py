"""Known answers: explainers down, suites across, each with its interval, and chance above them."""

from __future__ import annotations

from typing import Any

from attnx.render.page.plain import PlainTable
from attnx.render.page.reduction import number
from attnx.render.page.shown import Shown
from attnx.render.truth import lines
from attnx.results.faithfulness import MARKS
from attnx.results.truth import Truth


def data(shown: Shown) -> dict[str, Any] | None:
    """A cell for each metric of each suite: mean, 95 % interval and the mark of the verdict; fixed orders on top."""
    truth = shown.only(Truth)
    if truth is None:
        return None
    orders = tuple(dict.fromkeys(name for suite in truth.suites for name in truth.orders[suite]))
    columns = [(suite, metric) for suite in truth.suites for metric in truth.metrics[suite]]
    return {
        "heading": truth.heading(),
        "legend": list(truth.legend()),
        "foot": list(truth.foot()),
        "columns": [f"{suite}: {metric}{' ↓' if metric in truth.less_is_better else ''}" for suite, metric in columns],
        "cells": {
            name: [_cell(truth, name, suite, metric) for suite, metric in columns]
            for name in (*orders, *truth.explainers)
        },
        "lines": list(lines(truth)),
    }


def plain(page: dict[str, Any]) -> list[PlainTable]:
    """As it is printed."""
    found = page["truth"]
    return [PlainTable(found["heading"], found["lines"], found["legend"], found["foot"])]


def _cell(truth: Truth, name: str, suite: str, metric: str) -> dict[str, Any]:
    if name not in (*truth.values[suite], *truth.orders[suite]):
        return {"mean": None, "why": truth.refused.get(suite, {}).get(name, "not measured")}
    found = truth.cell(name, suite, metric)
    mark = MARKS[truth.verdict(name, suite, metric)] if name in truth.values[suite] else ""
    return {"mean": number(found.mean), "low": number(found.low), "high": number(found.high), "mark": mark}
