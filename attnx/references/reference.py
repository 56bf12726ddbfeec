"""A reference measures on the model itself what positions do for the answer. It is a frozen row of `REFERENCES`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from attnx.arguments import check_kinds
from attnx.errors import ChoiceError, InputError
from attnx.references.case import Case, Scored
from attnx.registry import unknown

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
        for one in chosen:
            if one not in self.options:
                raise ChoiceError(unknown(f"option of {self.name}", one, self.options))
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
