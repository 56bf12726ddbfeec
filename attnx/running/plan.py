"""How an input is run by its length: attention held, or computed from queries and keys where it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from attnx.errors import CostError
from attnx.graph.asked import Head
from attnx.methods.method import Method, check_cost
from attnx.methods.registry import PAPER_METHODS, asked_methods

LAST = -1
"""The last layer, whatever their number."""

LONG_INPUT = 1024
"""Above this many positions queries and keys are kept, and rows computed from them instead of held."""


@dataclass(frozen=True)
class Plan:
    """What is computed of one input, and how."""

    methods: tuple[Method, ...]
    held: bool
    """Whether attention is held; else queries and keys are."""
    notes: tuple[str, ...] = ()


def plan(
    methods: Sequence[Method] | None,
    length: int,
    config: Any,
    *,
    layer: int | str | None,
    head: Head | None,
    positions: int = 1,
) -> Plan:
    """The plan of an input of `length` positions, so many `positions` of which are explained.

    A method that would take too long is an error if it was asked for. Nobody asked when `methods` is None: it is left
    out then, with a note.
    """
    heads = getattr(config, "num_attention_heads", None)
    hidden = getattr(config, "hidden_size", None)
    top = _levels(config)
    width = hidden if isinstance(hidden, int) else 768
    heights = range(1, top + 1) if layer is None else (top if layer == LAST or isinstance(layer, str) else layer,)
    starts = positions * (heads if head == "each" and isinstance(heads, int) else 1)
    kept, notes = [], []
    for method in asked_methods(PAPER_METHODS) if methods is None else methods:
        try:
            check_cost(method, heights, length, starts, width=width)
            kept.append(method)
        except CostError as error:
            if methods is not None:
                raise
            notes.append(f"{method.name} was left out: {error}")
    held = length <= LONG_INPUT or not all(method.by_rows for method in kept)
    return Plan(tuple(kept), held, tuple(notes))


def _levels(config: Any) -> int:
    """About how many levels of attention there are: of an encoder–decoder those of both streams."""
    layers = getattr(config, "num_hidden_layers", None)
    whole = layers if isinstance(layers, int) else 12
    if not getattr(config, "is_encoder_decoder", False):
        return whole
    decoder = getattr(config, "decoder_layers", getattr(config, "num_decoder_layers", None))
    return whole + 2 * (decoder if isinstance(decoder, int) else whole)
