"""Which road an input takes by its length: attention held whole, or computed from queries and keys where it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from attnx.errors import CostError, InputError
from attnx.long_attention import LONG_INPUT
from attnx.methods.choices import Head
from attnx.methods.flow.cost import LIMIT, check_cost
from attnx.methods.registry import BY_ROWS, METHODS

DEFAULT_METHODS = ("raw", "rollout", "flow")


@dataclass(frozen=True)
class Road:
    """What is computed of one input, and how."""

    methods: tuple[str, ...]
    long: bool
    """Whether queries and keys are kept instead of attention."""
    notes: tuple[str, ...] = ()


def asked_methods(methods: Sequence[str] | str | None) -> tuple[str, ...] | None:
    """The methods that a caller named, each of which exists; None for nobody's choice."""
    if methods is None:
        return None
    names = (methods,) if isinstance(methods, str) else tuple(methods)
    if not names:
        raise InputError(f"no method asked; there are: {', '.join(METHODS.names())}")
    for name in names:
        METHODS[name]
    return names


def road(
    asked: Sequence[str] | None,
    length: int,
    config: Any,
    *,
    layer: int | None,
    head: Head | None,
    positions: int = 1,
) -> Road:
    """The road of an input of `length` positions, so many `positions` of which are explained.

    Flow that would take too long is an error if it was asked for. Nobody asked when `asked` is None: it is left out
    then, with a note.
    """
    layers = getattr(config, "num_hidden_layers", None)
    heads = getattr(config, "num_attention_heads", None)
    heights = (layer,) if isinstance(layer, int) else range(1, (layers if isinstance(layers, int) else 12) + 1)
    sources = positions * (heads if head == "each" and isinstance(heads, int) else 1)
    methods = DEFAULT_METHODS if asked is None else tuple(asked)
    notes: tuple[str, ...] = ()
    if "flow" in methods:
        try:
            check_cost(heights, length, sources, LIMIT)
        except CostError as error:
            if asked is not None:
                raise
            methods = tuple(name for name in methods if name != "flow")
            notes = (f"flow was left out: {error}",)
    return Road(methods, length > LONG_INPUT and set(methods) <= BY_ROWS, notes)
