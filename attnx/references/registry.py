"""The references by name, as `explain`, `compare` and the command line know them.

A plug-in adds its own by `REFERENCES.add(row.name, row)`, or by an entry point of the group `attnx.references`, and has
the rights of a built-in: options, costs, a line in the table of methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from attnx.errors import ChoiceError
from attnx.references.blankout import BLANKOUT
from attnx.references.case import Case, Scored
from attnx.references.gradient import GRADIENT, INPUT_X_GRADIENT
from attnx.references.gradient_shap import GRADIENT_SHAP
from attnx.references.integrated_gradients import INTEGRATED_GRADIENTS
from attnx.references.occlusion import FEATURE_ABLATION, OCCLUSION
from attnx.references.paths import VALUE_PATH_REFERENCE, WHOLE_PATH_REFERENCE
from attnx.references.reference import Reference
from attnx.registry import Registry, quoted

REFERENCES: Registry[Reference] = Registry("reference", row=Reference)
for _row in (
    GRADIENT,
    BLANKOUT,
    INPUT_X_GRADIENT,
    INTEGRATED_GRADIENTS,
    GRADIENT_SHAP,
    OCCLUSION,
    FEATURE_ABLATION,
    VALUE_PATH_REFERENCE,
    WHOLE_PATH_REFERENCE,
):
    REFERENCES.add(_row.name, _row)

Asked: TypeAlias = Sequence[str] | str | Mapping[str, Mapping[str, Any]]
"""Names, or names with options: `{"integrated_gradients": {"steps": 64}}`."""


def asked_references(asked: Asked) -> dict[str, dict[str, Any]]:
    """Name → options of what the user asked for; a name or an option that does not exist is an error."""
    if isinstance(asked, str):
        asked = (asked,)
    asked = asked if isinstance(asked, Mapping) else tuple(asked)
    for name in asked:
        REFERENCES[name]
        if isinstance(asked, Mapping) and not isinstance(asked[name], Mapping | None):
            raise ChoiceError(f"options of {name} are a dictionary, found {quoted(asked[name])}")
    options = (
        {name: dict(asked[name] or {}) for name in asked}
        if isinstance(asked, Mapping)
        else {name: {} for name in asked}
    )
    for name, chosen in options.items():
        REFERENCES[name].check_options(chosen)
    return options


def measure_references(
    model: Any, processor: Any, cases: Sequence[Case], asked: Mapping[str, Mapping[str, Any]], *, progress: bool = False
) -> dict[str, list[Scored]]:
    """Every reference that was asked for, on all cases."""
    return {
        name: REFERENCES[name](model, processor, cases, progress=progress, **options) for name, options in asked.items()
    }


def cheap_references(names: Sequence[str], positions: int, forwards: float) -> tuple[str, ...]:
    """Those that take at most so many plain forwards of an input of so many positions."""
    costs = {name: REFERENCES[name].forwards for name in names}
    return tuple(name for name, cost in costs.items() if cost is None or cost(positions) <= forwards)
