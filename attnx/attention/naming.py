"""Levels by name, where a model has several streams: "encoder 2", "self 1", "cross 3", counted from the input up."""

from __future__ import annotations

from collections.abc import Sequence

from attnx.errors import ChoiceError, whole_number
from attnx.registry import unknown

SELF, CROSS = "self", "cross"
VISION, PROJECTOR, DECODER = "vision", "projector", "decoder"
"""Of a picture with a text: the tower's attention, the fixed map between, the decoder's own."""
KINDS = ("encoder", SELF, CROSS)
"""A source's own attention, an output's own, and the output's to the source."""


def levels_of(kinds: Sequence[str], kind: str) -> tuple[int, ...]:
    """The numbers, from 1, of the levels of a kind."""
    found = tuple(number for number, one in enumerate(kinds, start=1) if one == kind and one)
    if not found:
        known = list(dict.fromkeys(one for one in kinds if one))
        if not known:
            raise ChoiceError(f"{kind!r} names a level of an encoder–decoder; here there is one stack: give its number")
        raise ChoiceError(unknown("kind of level", kind, known))
    return found


def level_number(kinds: Sequence[str], layer: int | str) -> int:
    """The number of a level in the one count, of a name or of a number as it is.

    >>> level_number(["encoder", "self", "cross", "self", "cross"], "cross 1")
    3
    >>> level_number(["encoder", "self", "cross", "self", "cross"], "self")
    4
    """
    if not isinstance(layer, str):
        return whole_number("layer", layer)
    kind, _, place = layer.strip().partition(" ")
    found = levels_of(kinds, kind)
    if not place:
        return found[-1]
    if not place.isdecimal() or not 1 <= int(place) <= len(found):
        raise ChoiceError(f"layer {layer!r} asked, the model has {kind} 1 to {kind} {len(found)}")
    return found[int(place) - 1]


def level_name(kinds: Sequence[str], number: int) -> str:
    """What a level is called: the name of its kind with its place, or its number where there is one stack."""
    kind = kinds[number - 1]
    return f"{kind} {levels_of(kinds, kind).index(number) + 1}" if kind else str(number)
