"""How far each method ranks the positions of one result as a reference does."""

from __future__ import annotations

from typing import Any

from attnx.agreement.by_sign import agree
from attnx.agreement.spearman import spearman
from attnx.agreement.ties import told_apart
from attnx.render.page.plain import Plain
from attnx.render.page.reduction import number
from attnx.render.page.shown import Shown, rankable
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
    rows = {method: rankable(explanation, method, layers) for method in explanation.methods}
    measured = {name: told_apart(scores[explanation.content]) for name, scores in explanation.references.items()}
    return {
        name: {
            method: [
                number(one) for one in agree(spearman, scores, other, both_signed={method, name} <= explanation.signed)
            ]
            for method, scores in rows.items()
        }
        for name, other in measured.items()
    }
