"""Explanations side by side: what the answers became, and each word above the one that stands for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnx.render.page.plain import PlainTable
from attnx.render.page.shown import Shown
from attnx.render.side_by_side import answers, blocks, cautions, heading, second_text
from attnx.results.side_by_side import SideBySide


def data(shown: Shown) -> dict[str, Any] | None:
    """The answers as lines of cells, and the scores of each row by each name."""
    both = shown.only(SideBySide)
    if both is None:
        return None
    return {
        "titles": list(both.titles),
        "answers": answers(both),
        "words": [list(both.words(row)) for row in range(len(both.rows))],
        "second": second_text(both),
        "scores": {name: _numbers(both.scores(name)) for name in both.names},
        "headings": {name: heading(both, name) for name in both.names},
        "cautions": {name: cautions(both, name) for name in both.names},
        "tables": [{"heading": one.heading, "rows": [list(line) for line in one.lines]} for one in blocks(both)],
    }


def plain(page: dict[str, Any]) -> list[PlainTable]:
    """The tables of the terminal."""
    return [PlainTable(one["heading"], one["rows"]) for one in page["side_by_side"]["tables"]]


def _numbers(scores: Any) -> list[list[float | None]]:
    return [[None if np.isnan(score) else round(float(score), 9) for score in row] for row in scores]
