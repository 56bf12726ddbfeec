"""A head atlas in a page: its grids of layers and heads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attnx.render.html.correlations import number

if TYPE_CHECKING:
    from attnx.atlas import HeadAtlas


def head_map(atlas: HeadAtlas) -> dict[str, Any]:
    """Means over the texts: what each head carries, and its agreement with each reference; None where undefined."""
    return {
        "method": atlas.method,
        "measure": atlas.measure,
        "layers": list(atlas.layers),
        "count": len(atlas.texts),
        "grids": {name: [[number(one) for one in row] for row in atlas.grid(name)] for name in atlas.values},
    }
