"""A comparison in a page: agreement over all texts, and of each one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attnx.errors import InputError
from attnx.explanation import Explanation
from attnx.render.html.correlations import number

if TYPE_CHECKING:
    from attnx.comparison import Comparison

TEXTS = 500
"""So many texts can be picked; the means are over all."""


def summary(comparison: Comparison) -> dict[str, Any]:
    """Means with their 95 % intervals for each reference, method and layer, and the same of each text."""
    return {
        "measure": comparison.measure,
        "layers": list(comparison.layers),
        "count": len(comparison.texts),
        "texts": list(comparison.texts[:TEXTS]),
        "references": {
            reference: {
                "means": {method: _cells(comparison, reference, method) for method in comparison.methods},
                "texts": {
                    method: [[number(one) for one in row] for row in values[:TEXTS]]
                    for method, values in by_method.items()
                },
                "others": _others(comparison, reference),
            }
            for reference, by_method in comparison.values.items()
        },
    }


def summary_of(explanations: Sequence[Explanation]) -> dict[str, Any] | None:
    """The comparison that several results make together; None where they carry nothing to compare with."""
    if len(explanations) < 2 or not all(one.references for one in explanations):
        return None
    from attnx.comparison import Comparison

    try:
        return summary(Comparison.of(explanations))
    except InputError:  # of different models: each has its own table
        return None


def _cells(comparison: Comparison, reference: str, method: str) -> list[dict[str, Any]]:
    cells = [comparison.cell(reference, method, layer) for layer in comparison.layers]
    return [
        {"mean": number(one.mean), "low": number(one.low), "high": number(one.high), "undefined": one.undefined}
        for one in cells
    ]


def _others(comparison: Comparison, reference: str) -> dict[str, float | None]:
    """How far the other references agree with this one: what can be hoped for at all."""
    from attnx.agreement import Summary

    found = comparison.ceiling[reference].items()
    return {other: number(Summary.of(values, seed=comparison.seed).mean) for other, values in found}
