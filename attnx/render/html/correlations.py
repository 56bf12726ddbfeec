"""Rank correlations that a page shows beside one result: with references, and between its methods."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from attnx.agreement import rankable, spearman
from attnx.explanation import Explanation

Array = np.ndarray[Any, np.dtype[np.float64]]


def between_methods(explanation: Explanation, layers: Sequence[int]) -> list[dict[str, Any]]:
    """Spearman's correlation of each two methods at each layer, over the words' positions; None where undefined."""
    ranked = {name: _content(explanation, name, layers) for name in explanation.methods}
    return [
        {
            "between": [one, other],
            "layers": [number(spearman(row, beside)) for row, beside in zip(ranked[one], ranked[other], strict=True)],
        }
        for one, other in combinations(explanation.methods, 2)
    ]


def with_references(explanation: Explanation, layers: Sequence[int]) -> dict[str, Any]:
    """For each reference its scores, and each method's correlation with their size at each layer."""
    content = _content_positions(explanation)
    return {
        name: {
            "scores": [float(one) for one in scores],
            "agreement": {
                method: [
                    number(one) for one in spearman(_content(explanation, method, layers), np.abs(scores[content]))
                ]
                for method in explanation.methods
            },
        }
        for name, scores in explanation.references.items()
    }


def number(value: Any) -> float | None:
    """For JSON, which has no NaN."""
    return None if value is None or np.isnan(value) else round(float(value), 4)


def _content(explanation: Explanation, method: str, layers: Sequence[int]) -> Array:
    """layer × position of no special token, as it may be ranked."""
    content = _content_positions(explanation)
    return np.stack([rankable(explanation.scores(method, layer)[content], method) for layer in layers])


def _content_positions(explanation: Explanation) -> list[int]:
    return [one.index for one in explanation.positions if not one.special]
