"""Words of two sides, source and written or two texts: a click on one colours the other, a grid shows all pairs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from attnx.render.columns import TextBlock
from attnx.render.page.plain import PlainTable
from attnx.render.page.shown import Shown
from attnx.render.similarity import blocks as similarity_blocks
from attnx.render.similarity import grid_heading, pair_noun, shortened, sums
from attnx.render.word_alignment import blocks, error_lines
from attnx.results.similarity import Similarity
from attnx.results.word_alignment import Alignment

_NUMBERS = 100_000
"""Scores in a page, at about ten bytes each; sentences beyond are not in it, and the page says so."""


def data(shown: Shown) -> dict[str, Any] | None:
    """The words, links and scores of each pair of sentences, and what is said of all."""
    alignment, similarity = shown.only(Alignment), shown.only(Similarity)
    if alignment is not None:
        return _aligned(alignment)
    return None if similarity is None or similarity.grid is None else _similar(similarity)


def _aligned(alignment: Alignment) -> dict[str, Any]:
    kept, room = 0, _NUMBERS
    while kept < len(alignment) and (kept == 0 or alignment.scores[kept].size <= room):
        room -= alignment.scores[kept].size
        kept += 1
    cut = [f"{kept:,} of {len(alignment):,} pairs of sentences are in this page"] if kept < len(alignment) else []
    return {
        **_WRITTEN,
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
        "tables": _tables(blocks(alignment)),
    }


def _similar(one: Similarity) -> dict[str, Any]:
    """Texts, or a picture's patches, as the two sides, the first on the left and across the grid."""
    across, down, grid = shortened(one)
    best = int(np.abs(grid[:-1, :-1]).max(0, initial=0).argmax()) if len(down) > 1 else 0
    return {
        **_SIMILAR,
        "names": dict(zip(("source", "target"), map(str.capitalize, one.titles), strict=True)),
        "all": f"All pairs of {pair_noun(one)}",
        "headline": f"{one.headline}; {grid_heading(one)}",
        "start": best,
        "notes": [sums(one), *one.notes],
        "sentences": [{"source": across, "target": down, "links": [], "scores": np.round(grid.T, 6).tolist()}],
        "tables": _tables(similarity_blocks(one)),
    }


_WRITTEN = {
    "title": "Source and what was written",
    "names": {"source": "Source", "target": "Written"},
    "said": {"target": "was written from", "source": "went into"},
    "arrow": "←",
    "all": "All pairs; links are framed",
    "start": 0,
}
_SIMILAR = {
    "title": "What makes both similar",
    "said": {"target": "goes with", "source": "goes with"},
    "arrow": "×",
}
"""What each kind calls its two sides."""


def _tables(several: Iterable[TextBlock]) -> list[dict[str, Any]]:
    return [
        {"heading": one.heading, "lead": list(one.lead), "rows": [list(line) for line in one.lines]} for one in several
    ]


def plain(page: dict[str, Any]) -> list[PlainTable]:
    """The tables of the terminal."""
    return [PlainTable(one["heading"], one["rows"], one["lead"]) for one in page["alignment"]["tables"]]
