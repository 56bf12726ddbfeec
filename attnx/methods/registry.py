"""The methods by name, in the order in which views show them.

A plug-in adds its own by `METHODS.add(row.name, row)`, or by an entry point of the group `attnx.methods`, and has the
rights of a built-in: by rows, costed, diagnosed, held against the receptive field.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from attnx.errors import ChoiceError, InputError
from attnx.graph.registry import WEIGHTINGS
from attnx.registry import Registry

if TYPE_CHECKING:
    from attnx.methods.method import Method

_BUILT_IN = {
    "raw": "raw:RAW",
    "rollout": "rollout:ROLLOUT",
    "flow": "flow.flow:FLOW",
    "effective_rollout": "beyond_attention:EFFECTIVE_ROLLOUT",
    "norm_rollout": "beyond_attention:NORM_ROLLOUT",
    "globenc": "beyond_attention:GLOBENC_ROLLOUT",
    "alti": "beyond_attention:ALTI_ROLLOUT",
    "value_zeroing": "beyond_attention:VALUE_ZEROING_ROLLOUT",
    "gradient_rollout": "beyond_attention:GRADIENT_ROLLOUT",
    "gradient_flow": "beyond_attention:GRADIENT_FLOW",
    "alti_logit": "alti_logit:ALTI_LOGIT",
}
METHODS: Registry[Method] = Registry(
    "method", "attnx.methods.method:Method", {name: f"attnx.methods.{place}" for name, place in _BUILT_IN.items()}
)

PAPER_METHODS = ("raw", "rollout", "flow")
"""The rows of the paper's tables, in its order, and what is computed where nobody chose. Raw has no residual."""


def asked_methods(methods: Sequence[str] | str) -> tuple[Method, ...]:
    """The rows that a caller named; a name that does not exist is an error. `rollout:NAME` names edges, too."""
    names = (methods,) if isinstance(methods, str) else tuple(methods)
    if not names:
        raise InputError(f"no method asked; there are: {', '.join(METHODS.names())}")
    return tuple(_named(name) for name in names)


def _named(name: str) -> Method:
    """A row of `METHODS`, or one of them on other edges: `rollout:NAME` is rollout of the weighting NAME."""
    method, _, weighting = name.partition(":") if isinstance(name, str) else (name, "", "")
    if name in METHODS or not weighting:
        return METHODS[name]
    row = WEIGHTINGS[weighting]
    if row.signed and not METHODS[method].takes_signed:
        raise ChoiceError(f"{method} needs edges that are at least 0, and those of {weighting!r} are signed")
    return replace(
        METHODS[method], name=name, title="", weighting=weighting, by_rows=METHODS[method].by_rows and row.by_rows
    )


def title_of(name: str) -> str:
    """As a heading says it; of a method that is not there, as one of a file may be, its name."""
    return METHODS[name].title if name in METHODS else name
