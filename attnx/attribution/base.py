"""All references in the table of methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from torch import nn

from attnx.adapters import PreparedInput, adapter_for
from attnx.arguments import check_kinds
from attnx.errors import ChoiceError, InputError
from attnx.hooks import map_outputs, unwrap_model
from attnx.methods import Listed
from attnx.registry import Registry, quoted, unknown
from attnx.targets import Target, predict

_BUILT_IN = {
    "gradient": "attnx.attribution.gradients:GRADIENT",
    "blankout": "attnx.attribution.ablation:BLANKOUT",
    "input_x_gradient": "attnx.attribution.gradients:INPUT_X_GRADIENT",
    "integrated_gradients": "attnx.attribution.gradients:INTEGRATED_GRADIENTS",
    "gradient_shap": "attnx.attribution.gradients:GRADIENT_SHAP",
    "occlusion": "attnx.attribution.ablation:OCCLUSION",
    "feature_ablation": "attnx.attribution.ablation:FEATURE_ABLATION",
    "lrp": "attnx.attribution.lrp:LRP_METHOD",
    "attn_lrp": "attnx.attribution.lrp:ATTN_LRP_METHOD",
}
REFERENCES: Registry[Reference] = Registry(
    "reference",
    "attnx.attribution.base:Reference",
    _BUILT_IN,
)

AskedReferences: TypeAlias = Sequence[str] | str | Mapping[str, Mapping[str, Any]]
"""Names, or names with options: `{"integrated_gradients": {"steps": 64}}`."""


def asked_references(names: AskedReferences) -> dict[str, dict[str, Any]]:
    """Name → options of what the user asked for; a name or an option that does not exist is an error."""
    if isinstance(names, str):
        names = (names,)
    names = names if isinstance(names, Mapping) else tuple(names)
    for name in names:
        REFERENCES[name]
        if isinstance(names, Mapping) and not isinstance(names[name], Mapping | None):
            raise ChoiceError(f"options of {name} are a dictionary, found {quoted(names[name])}")
    options = (
        {name: dict(names[name] or {}) for name in names}
        if isinstance(names, Mapping)
        else {name: {} for name in names}
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


Array = np.ndarray[Any, np.dtype[np.float64]]

_SHARED_POSITIONS = 2**15
"""Positions times cases that share a run: vectors of 4,096 numbers for each are half a gigabyte."""


@dataclass(frozen=True, eq=False)
class Case:
    """A prepared input, and the class or token whose score a reference explains."""

    prepared: PreparedInput
    target: Target

    @property
    def content(self) -> list[int]:
        """The positions that are no special tokens."""
        return self.prepared.positions.content

    @property
    def units(self) -> list[tuple[int, ...]]:
        """What is removed together: the parts that the caller named, or each position that is no special token."""
        return self.prepared.units


@dataclass(frozen=True, eq=False)
class Scored:
    """One score for each position of a case, and what else was learnt while measuring."""

    scores: Array
    facts: Mapping[str, float | str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """What the user should know before believing the scores."""
    signed: bool = False
    """Whether a score below 0 speaks against the target."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "scores", np.asarray(self.scores, dtype=np.float64))


def cases(
    model: nn.Module,
    processor: Any,
    prepared: Sequence[PreparedInput],
    *,
    target: Any = None,
    position: int | None = None,
) -> list[Case]:
    """A case for each input: by default of what the model predicts, read at the position that its adapter explains."""
    model = unwrap_model(model)
    adapter = adapter_for(model)

    def read(row: int, output: Any, place: int) -> Case:
        where = adapter.explained(model, processor, prepared[row]) if position is None else position
        prediction = predict(model, processor, output, place, where, target, prepared[row])
        return Case(prepared[row], Target.of(model, prediction, where))

    return map_outputs(model, processor, prepared, read)


def by_input(cases: Sequence[Case]) -> tuple[list[int], list[list[int]]]:
    """The numbers of cases that have their input for themselves, and of those that share one.

    No more of these are together than fit in memory when each has numbers of its own for every position.
    """
    groups: dict[int, list[int]] = {}
    for number, case in enumerate(cases):
        groups.setdefault(id(case.prepared), []).append(number)
    shared = []
    for group in groups.values():
        size = max(2, _SHARED_POSITIONS // len(cases[group[0]].prepared.positions))
        shared += [group[start : start + size] for start in range(0, len(group), size)]
    return [one[0] for one in shared if len(one) == 1], [one for one in shared if len(one) > 1]


Measure: TypeAlias = Callable[..., list[Scored]]
"""`(model, processor, cases, *, progress=False, …)` → one `Scored` for each case."""

Forwards: TypeAlias = Callable[..., float]
"""(positions, **options) → how many plain forwards of such an input it takes. A way back to the input counts as one."""

ANSWER, SLOPES = "a head that answers", "gradients"
"""What a model may have to have."""


@dataclass(frozen=True)
class Reference:
    """What is measured on the model. It can be called as its function can."""

    name: str
    function: Measure
    title: str = ""
    """As a heading says it: "integrated gradients"; by default the name."""
    paper: str = ""
    """Where it is from."""
    costs: str = "not said"
    forwards: Forwards | None = None
    """The cost as a number; None where the row does not say."""
    signed: bool = False
    """Whether a score below 0 speaks against the target, unless an option says otherwise."""
    needs: tuple[str, ...] = (ANSWER,)
    options: tuple[str, ...] = ()
    """What a caller may choose: keyword arguments of the function."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", self.title or self.name)

    def __call__(self, model: Any, processor: Any, cases: Sequence[Case], **options: Any) -> list[Scored]:
        """One `Scored` for each case, checked: a plug-in may give anything."""
        scored = self.function(model, processor, cases, **options)
        _check_scored(self.name, scored, cases)
        return scored

    def check_options(self, chosen: Mapping[str, Any]) -> None:
        """An option that the row does not have is an error, and so is a value of another kind than its name takes."""
        for name in chosen:
            if name not in self.options:
                raise ChoiceError(unknown(f"option of {self.name}", name, self.options))
        check_kinds(chosen)


def _check_scored(name: str, scored: Sequence[Any], cases: Sequence[Case]) -> None:
    if len(scored) != len(cases) or not all(isinstance(one, Scored) for one in scored):
        raise InputError(f"reference {name!r} must give a list of {len(cases)}: a Scored for each case")
    for one, case in zip(scored, cases, strict=True):
        if np.shape(one.scores) != (len(case.prepared.positions),):
            raise InputError(
                f"reference {name!r} gave scores of shape {np.shape(one.scores)} for "
                f"{len(case.prepared.positions)} positions; give one a position"
            )


def listed_references() -> tuple[Listed, ...]:
    """The rows of `REFERENCES`, in the order in which views show them."""
    return tuple(_row(REFERENCES[name]) for name in REFERENCES.names())


def _row(reference: Reference) -> Listed:
    return Listed(
        reference.name,
        "reference",
        "the answer",
        reference.needs,
        reference.costs,
        f"{reference.title} ({reference.paper})" if reference.paper else reference.title,
        long_inputs=True,
        heads=False,
    )
