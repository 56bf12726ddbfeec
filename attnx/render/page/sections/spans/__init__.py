"""Parts of the text that the caller named, a row each: documents, sentences, lines."""

from __future__ import annotations

from typing import Any

from attnx.render.digits import places, written
from attnx.render.page.plain import PlainTable
from attnx.render.page.shown import Shown


def data(shown: Shown) -> dict[str, Any] | None:
    """The parts of each text, by their positions; not on a page of texts without any."""
    named = [[[part.name, list(part.positions)] for part in one.spans] for one in shown.explanations]
    return {"results": [{"parts": parts} for parts in named]} if any(named) else None


def plain(page: dict[str, Any]) -> list[PlainTable]:
    """A table for each text: what is shown first, of a method its last layer, summed over each part."""
    several = zip(page["results"], page["spans"]["results"], strict=True)
    return [_table(result, own["parts"]) for result, own in several if own["parts"]]


def _table(result: dict[str, Any], parts: list[tuple[str, list[int]]]) -> PlainTable:
    first = result["first"]
    scores = result["references"].get(first) or result["relevance"][first][-1]
    sums = [sum(scores[place] for place in positions) for _, positions in parts]
    decimals = places(sums, result["digits"].get(first))
    rows = [[name, written(score, decimals)] for (name, _), score in zip(parts, sums, strict=True)]
    return PlainTable("Parts of the text", [["part", first], *rows])
