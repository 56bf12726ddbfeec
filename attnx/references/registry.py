"""The references by name, as `explain`, `compare` and the command line know them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any, TypeAlias

import numpy as np

from attnx.errors import ChoiceError, InputError
from attnx.references.blankout import blankout
from attnx.references.case import Case, Scored
from attnx.references.gradient import gradient, input_x_gradient
from attnx.references.gradient_shap import gradient_shap
from attnx.references.integrated_gradients import integrated_gradients
from attnx.references.occlusion import feature_ablation, occlusion
from attnx.references.paths import value_path, whole_path
from attnx.registry import Registry, quoted, unknown

Reference: TypeAlias = Callable[..., list[Scored]]
"""`reference(model, processor, cases, *, progress=False, …)` → one `Scored` for each case."""

REFERENCES: Registry[Reference] = Registry("reference")
for _reference in (
    gradient,
    blankout,
    input_x_gradient,
    integrated_gradients,
    gradient_shap,
    occlusion,
    feature_ablation,
    value_path,
    whole_path,
):
    REFERENCES.add(_reference.__name__, _reference)

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
    for name, several in options.items():
        parameters = signature(REFERENCES[name]).parameters
        known = [
            one.name for one in parameters.values() if one.kind is Parameter.KEYWORD_ONLY and one.name != "progress"
        ]
        anything = any(one.kind is Parameter.VAR_KEYWORD for one in parameters.values())
        for option in several:
            if option not in known and (option == "progress" or not anything):
                raise ChoiceError(unknown(f"option of {name}", option, known))
    return options


def measure_references(
    model: Any, processor: Any, cases: Sequence[Case], asked: Mapping[str, Mapping[str, Any]], *, progress: bool = False
) -> dict[str, list[Scored]]:
    """Every reference that was asked for, on all cases."""
    found = {}
    for name, options in asked.items():
        scored = REFERENCES[name](model, processor, cases, progress=progress, **options)
        _check_scored(name, scored, cases)
        found[name] = scored
    return found


def _check_scored(name: str, scored: Sequence[Any], cases: Sequence[Case]) -> None:
    if len(scored) != len(cases) or not all(isinstance(one, Scored) for one in scored):
        raise InputError(f"reference {name!r} must give a list of {len(cases)}: a Scored for each case")
    for one, case in zip(scored, cases, strict=True):
        if np.shape(one.scores) != (len(case.prepared.positions),):
            raise InputError(
                f"reference {name!r} gave scores of shape {np.shape(one.scores)} for "
                f"{len(case.prepared.positions)} positions; give one a position"
            )
