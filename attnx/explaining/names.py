"""What can be said of a caller's choices before there is a model: names that do not exist, numbers that nothing has.

Nothing heavy is imported here, so that the command line refuses a mistake at once; `explain` asks the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attnx.errors import ChoiceError
from attnx.graph.asked import check_head_name
from attnx.graph.registry import WEIGHTINGS
from attnx.graph.shares import check_share
from attnx.methods.normalization import check_normalization
from attnx.methods.registry import METHODS
from attnx.references.registry import REFERENCES

MEAN, ENTITIES, EVERY = "mean", "entities", "every"
"""How a caller asks for the mean of all positions, for each entity that a token classifier finds, and for each token of
an output: `position="mean"`."""


def check_choices(
    methods: Sequence[str] | None = None,
    references: Sequence[str] | None = None,
    *,
    normalize: Any = "auto",
    discard: float = 0.0,
    layer: Any = None,
    head: Any = None,
    position: Any = None,
) -> None:
    """That all of it may exist. What depends on the model or on the input is found out with them."""
    check_no_reference(methods)
    for name in methods or ():
        _check_method(name)
    for name in references or ():
        REFERENCES.check(name)
    check_normalization(normalize)
    check_share(discard)
    if isinstance(layer, int) and layer < 1:
        raise ChoiceError(f"layer {layer} asked; layers are counted from 1, which is next to the input")
    if isinstance(head, int) and head < 0:
        raise ChoiceError(f"head {head} asked; heads are counted from 0")
    if isinstance(head, str):
        check_head_name(head)
    if isinstance(position, str):
        check_position_name(position)


def check_position_name(position: str) -> None:
    """A position that is a word."""
    if position not in (MEAN, ENTITIES, EVERY):
        raise ChoiceError(
            f"position must be a whole number, {MEAN!r} for the mean of all, {ENTITIES!r} for each that a token "
            f"classifier finds, or {EVERY!r} for each token of an output, found {position!r}"
        )


def check_no_reference(methods: Any) -> None:
    """References are asked for by another word; who takes one for a method is told which."""
    names = (methods,) if isinstance(methods, str) else methods if isinstance(methods, (list, tuple)) else ()
    for name in names:
        if isinstance(name, str) and ":" not in name and name not in METHODS and name in REFERENCES:
            raise ChoiceError(
                f"{name} is a reference, measured on the model itself, and no method: references={name!r}, "
                f"or --reference {name} on the command line"
            )


def _check_method(name: str) -> None:
    """A row of `METHODS`, or one of them on other edges, as `asked_methods` takes them."""
    method, _, weighting = name.partition(":")
    if name not in METHODS and weighting:
        WEIGHTINGS.check(weighting)
        METHODS.check(method)
    else:
        METHODS.check(name)
