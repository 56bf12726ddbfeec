"""Each head by itself: lines from one query to the keys that it attends to, and all heads of a layer as small panels.

Drawn from the maps of every head (`explain(..., head="each", maps=True)`). A page stays small: where there is no room
for all weights, each row keeps its strongest, then fewer layers are kept, and the section says what was left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnx.render.page.plain import Plain
from attnx.render.page.reduction import kept_layers_and_edges, share_of_strongest, strongest
from attnx.render.page.shown import Shown
from attnx.results.explanation import Explanation
from attnx.results.result import Array

HEAD_BYTES = 1_500_000
"""For the rows of all heads of all results in a page."""


def data(shown: Shown) -> dict[str, Any] | None:
    """For each result the rows of each head, as many as there is room for."""
    every = [_heads(one, HEAD_BYTES / len(shown.explanations)) for one in shown.explanations]
    return {"results": every} if any(one is not None for one in every) else None


def plain(page: dict[str, Any]) -> list[Plain]:
    """Lines need their script."""
    return []


def _heads(explanation: Explanation, room: float) -> dict[str, Any] | None:
    """Layer × head × query × key of each method; `layers` are indices into those of the explanation."""
    maps = {name: one for name, one in (explanation.maps or {}).items() if one.ndim == 4}
    if not maps:
        return None
    count, heads, length, _ = next(iter(maps.values())).shape
    layers, edges = kept_layers_and_edges(count, len(maps) * heads * length, length, room)
    if not layers:
        return {"left_out": "the page has no room for the rows of each head; give it a shorter text, or fewer results"}
    chosen = {name: np.asarray(one)[layers] for name, one in maps.items()}
    return {
        "layers": layers,
        "heads": heads,
        "edges": edges,
        "left_out": _left_out(chosen, layers, count, edges, length),
        "relevance": {name: strongest(one, edges) for name, one in chosen.items()},
    }


def _left_out(maps: dict[str, Array], layers: list[int], count: int, edges: int, length: int) -> str:
    told = []
    if len(layers) < count:
        told.append(f"{len(layers)} of {count} layers are in this page")
    if edges < length:
        shares = [share_of_strongest(one, edges) for one in maps.values()]
        told.append(f"of each row its {edges} strongest of {length} weights, {np.mean(shares):.0%} of the whole")
    return "; ".join(told)
