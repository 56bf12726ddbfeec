"""How far each method ranks the positions of one result as a reference does."""

from __future__ import annotations

from typing import Any

from attnx.render.page.plain import Plain
from attnx.render.page.reduction import number
from attnx.render.page.shown import Shown, correlation
from attnx.results.explanation import Explanation


def data(shown: Shown) -> dict[str, Any] | None:
    """Of each result: reference → method → Spearman's correlation at each layer, with signs where both have one."""
    if not any(one.references for one in shown.explanations):
        return None
    pairs = zip(shown.explanations, shown.contents, strict=True)
    return {"results": [_with_references(one, content["layers"]) for one, content in pairs]}


def plain(page: dict[str, Any]) -> list[Plain]:
    """The words stand for themselves there."""
    return []


def _with_references(explanation: Explanation, layers: list[int]) -> dict[str, Any]:
    return {
        name: {
            method: [number(correlation(explanation, method, name, layer)) for layer in layers]
            for method in explanation.methods
        }
        for name in explanation.references
    }
