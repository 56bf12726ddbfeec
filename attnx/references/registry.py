"""The references by name, as `explain`, `compare` and the command line know them.

A plug-in adds its own by `REFERENCES.add(row.name, row)`, or by an entry point of the group `attnx.references`, and has
the rights of a built-in: options, costs, a line in the table of methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from attnx.errors import ChoiceError
from attnx.registry import Registry, quoted

if TYPE_CHECKING:
    from attnx.references.case import Case, Scored
    from attnx.references.reference import Reference

_BUILT_IN = {
    "gradient": "gradient:GRADIENT",
    "blankout": "blankout:BLANKOUT",
    "input_x_gradient": "gradient:INPUT_X_GRADIENT",
    "integrated_gradients": "integrated_gradients:INTEGRATED_GRADIENTS",
    "gradient_shap": "gradient_shap:GRADIENT_SHAP",
    "occlusion": "occlusion:OCCLUSION",
    "feature_ablation": "occlusion:FEATURE_ABLATION",
    "value_path": "paths:VALUE_PATH_REFERENCE",
    "whole_path": "paths:WHOLE_PATH_REFERENCE",
}
REFERENCES: Registry[Reference] = Registry(
    "reference",
    "attnx.references.reference:Reference",
    {name: f"attnx.references.{place}" for name, place in _BUILT_IN.items()},
)

AskedReferences: TypeAlias = Sequence[str] | str | Mapping[str, Mapping[str, Any]]
"""Names, or names with options: `{"integrated_gradients": {"steps": 64}}`."""


def asked_references(asked: AskedReferences) -> dict[str, dict[str, Any]]:
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
