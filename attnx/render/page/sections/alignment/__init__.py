"""Source and written words beside each other: a click on one colours the other, and a grid shows all pairs."""

from __future__ import annotations

from typing import Any

from attnx.render.page.plain import PlainTable
from attnx.render.page.shown import Shown
from attnx.render.word_alignment import blocks, error_lines
from attnx.results.word_alignment import Alignment

_NUMBERS = 100_000
"""Scores in a page, at about ten bytes each; sentences beyond are not in it, and the page says so."""


def data(shown: Shown) -> dict[str, Any] | None:
    """The words, links and scores of each pair of sentences, and what is said of all."""
    alignment = shown.only(Alignment)
    if alignment is None:
        return None
    kept, room = 0, _NUMBERS
    while kept < len(alignment) and (kept == 0 or alignment.scores[kept].size <= room):
        room -= alignment.scores[kept].size
        kept += 1
    cut = [f"{kept:,} of {len(alignment):,} pairs of sentences are in this page"] if kept < len(alignment) else []
    return {
        "headline": alignment.headline,
        "notes": [*error_lines(alignment), *alignment.notes, *cut],
        "sentences": [
            {
                "source": list(one.source),
                "target": list(one.target),
                "links": [list(link) for link in one.links],
                "scores": [[round(float(score), 6) for score in row] for row in scores],
            }
            for one, scores in zip(alignment.sentences[:kept], alignment.scores[:kept], strict=True)
        ],
        "tables": [
            {"heading": one.heading, "lead": list(one.lead), "rows": [list(line) for line in one.lines]}
            for one in blocks(alignment)
        ],
    }


def plain(page: dict[str, Any]) -> list[PlainTable]:
    """The tables of the terminal."""
    return [PlainTable(one["heading"], one["rows"], one["lead"]) for one in page["alignment"]["tables"]]
