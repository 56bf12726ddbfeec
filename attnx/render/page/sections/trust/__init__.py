"""How far to trust what is shown: the remarks of each row, agreement between methods, ties and saturation."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from attnx.render.page.plain import Plain
from attnx.render.page.reduction import number
from attnx.render.page.shown import Shown, correlation
from attnx.render.plain_text import accounts, blanked_name
from attnx.results.explanation import Explanation
from attnx.results.remarks import SHARES, line, weightiest


def data(shown: Shown) -> dict[str, Any] | None:
    """Of each result what was measured on it, layer by layer; agreement with references is in its own section."""
    if not shown.explanations:
        return None
    pairs = zip(shown.explanations, shown.contents, strict=True)
    return {"results": [_facts(one, content["layers"]) for one, content in pairs]}


def plain(page: dict[str, Any]) -> list[Plain]:
    """It speaks of the method and the layer that are chosen."""
    return []


def _facts(explanation: Explanation, layers: list[int]) -> dict[str, Any]:
    kept = [explanation.layers.index(layer) for layer in layers]
    return {
        "said": {name: [_said(explanation, name, layer) for layer in layers] for name in explanation.methods}
        | {name: [_said(explanation, name, None)] for name in explanation.references},
        "between": _between_methods(explanation, layers),
        "diagnostics": {
            method: {name: [numbers[one] for one in kept] for name, numbers in found.items()}
            for method, found in explanation.diagnostics.items()
        },
        "accounts": dict(accounts(explanation, explanation.names)),
        "named": {name: blanked_name(explanation.provenance, name) for name in explanation.references},
        "sink": None if explanation.sink is None else [explanation.sink[one] for one in kept],
        "sinkName": _sink_name(explanation),
    }


def _sink_name(explanation: Explanation) -> str:
    """What the share of attention in `sink` goes to."""
    if explanation.image_size is not None and not explanation.streams:
        return "patches that may be sinks"
    return "the start of the output" if explanation.streams else "the first token"


def _said(explanation: Explanation, name: str, layer: int | None) -> dict[str, Any]:
    """The verdict on a row, how much care it asks for, and what else is to be said."""
    every = explanation.remarks(name, layer)
    chief = weightiest(every)
    levels = [one.level for one in chief]
    return {
        "verdict": line(every),
        "level": "care" if "care" in levels else levels[0],
        "rest": [one.sentence for one in every if one not in chief and one.weight >= SHARES],
    }


def _between_methods(explanation: Explanation, layers: list[int]) -> list[dict[str, Any]]:
    """Spearman's correlation of each two methods at each layer, special tokens left out; None where undefined."""
    return [
        {"between": [one, other], "layers": [number(correlation(explanation, one, other, layer)) for layer in layers]}
        for one, other in combinations(explanation.methods, 2)
    ]
