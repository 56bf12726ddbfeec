"""References beside attention: the same explanations, each with what was measured on the model for its prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from attnx.adapters import Prepared
from attnx.explanation import Explanation
from attnx.references.case import Case
from attnx.references.registry import measure_references
from attnx.target import Target


def with_references(
    model: nn.Module,
    processor: Any,
    prepared: Sequence[Prepared],
    explanations: Sequence[Explanation],
    target: Any,
    asked: Mapping[str, Mapping[str, Any]],
) -> list[Explanation]:
    """Measure what was `asked` on all inputs at once; options and facts go into the provenance."""
    cases = [
        Case(one, Target.of(model, processor, explanation.prediction, explanation.position, target))
        for one, explanation in zip(prepared, explanations, strict=True)
    ]
    measured = measure_references(model, processor, cases, asked)
    return [
        replace(
            explanation,
            references={name: scored[number].scores for name, scored in measured.items()},
            notes=(*explanation.notes, *(note for scored in measured.values() for note in scored[number].notes)),
            provenance={
                **explanation.provenance,
                "references": {name: {**_on_record(asked[name]), **measured[name][number].facts} for name in measured},
            },
        )
        for number, explanation in enumerate(explanations)
    ]


def _on_record(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as they can be saved: a function by its name."""
    return {
        name: value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)
        for name, value in options.items()
    }
