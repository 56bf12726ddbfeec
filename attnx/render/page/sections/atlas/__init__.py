"""A head atlas: its grids of layers and heads."""

from __future__ import annotations

from typing import Any

from attnx.render.page.plain import PlainTable, cell
from attnx.render.page.reduction import number
from attnx.render.page.shown import Shown
from attnx.results.atlas import HeadAtlas


def data(shown: Shown) -> dict[str, Any] | None:
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


def plain(page: dict[str, Any]) -> list[PlainTable]:
    """For each grid its layers, the last on top."""
    found = page["atlas"]
    tables = []
    for name, grid in found["grids"].items():
        rows = [[str(layer), *map(cell, row)] for layer, row in zip(found["layers"], grid, strict=True)]
        head = ["layer", *map(str, range(len(grid[0])))]
        tables.append(PlainTable(f"Heads, {name}: mean of {found['count']}", [head, *reversed(rows)]))
    return tables
