"""A comparison: agreement over all texts, and of each one."""

from __future__ import annotations

from typing import Any

from attnx.agreement.summary import Summary
from attnx.errors import InputError
from attnx.render.page.plain import PlainTable, cell
from attnx.render.page.reduction import number
from attnx.render.page.shown import Shown
from attnx.render.plain_text import blanked_name
from attnx.results.comparison import Comparison
from attnx.results.explanation import Explanation

TEXTS = 500
"""So many texts can be picked; the means are over all."""


def data(shown: Shown) -> dict[str, Any] | None:
    """Means with their 95 % intervals for each reference, method and layer, and the same of each text."""
    comparison = shown.only(Comparison) or _comparison_of(shown)
    if comparison is None:
        return None
    return {
        "measure": comparison.measure,
        "layers": list(comparison.layers),
        "count": len(comparison.texts),
        "texts": list(comparison.texts[:TEXTS]),
        "references": {
            reference: {
                "named": blanked_name(comparison.provenance, reference),
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


def plain(page: dict[str, Any]) -> list[PlainTable]:
    """For each reference the means by method and layer."""
    whole = page["summary"]
    tables = []
    for found in whole["references"].values():
        rows = [["layer", *map(str, whole["layers"])]]
        rows += [[method, *(cell(one["mean"]) for one in cells)] for method, cells in found["means"].items()]
        heading = f"Agreement with {found['named']}: {whole['measure']}, mean of {whole['count']}"
        tables.append(PlainTable(heading, rows))
    return tables


def _comparison_of(shown: Shown) -> Comparison | None:
    """The comparison that several results make together; None where they carry nothing to compare with.

    Parts of one result, as the two of a text that was changed, are no sample of texts.
    """
    given = [one for one in shown.results if isinstance(one, Explanation)]
    if len(given) < 2 or not all(one.references for one in given):
        return None
    try:
        return Comparison.of(given)
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
    found = comparison.ceiling[reference].items()
    return {other: number(Summary.of(values, seed=comparison.seed).mean) for other, values in found}
