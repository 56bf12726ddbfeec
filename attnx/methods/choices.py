"""Layers, heads and positions as they are asked for, checked against what there is."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from attnx.errors import ChoiceError

Head: TypeAlias = int | Literal["each", "mean", "max", "min"]


def check_layer(layer: int, layers: int) -> int:
    layer = whole_number("layer", layer)
    if not 1 <= layer <= layers:
        raise ChoiceError(f"layer {layer} asked, model has {layers} (1 is next to the input)")
    return layer


def check_positions(position: int | Sequence[int] | None, length: int) -> tuple[int, ...]:
    if position is None:
        return tuple(range(length))
    if not isinstance(position, Sequence):
        return (check_position(position, length),)
    if not position:
        raise ChoiceError("the list of positions is empty; give at least one, or None for all")
    return tuple(check_position(one, length) for one in position)


def check_position(position: int, length: int) -> int:
    """The index from 0 of a position, which may be counted from the end as in Python (−1 is the last)."""
    position = whole_number("position", position)
    if not -length <= position < length:
        raise ChoiceError(f"position {position} asked, input has {length} (0 to {length - 1}; −1 is the last)")
    return position % length


def check_head(head: Head, heads: int, merged: str | None) -> Head:
    if isinstance(head, str):
        if head not in ("each", "mean", "max", "min"):
            raise ChoiceError(f"head {head!r} is not known; give a number from 0, 'each', 'mean', 'max' or 'min'")
    else:
        head = whole_number("head", head)
    if merged and head != merged:
        raise ChoiceError(
            f"head {head!r} asked, but the heads were merged ({merged}) while capturing; capture with reduce=None"
        )
    if not isinstance(head, str) and not 0 <= head < heads:
        raise ChoiceError(f"head {head} asked, model has {heads} (0 to {heads - 1})")
    return head


def whole_number(name: str, value: Any) -> int:
    """A plain int of any whole number, numpy's too."""
    try:
        return int(operator.index(value)) if not isinstance(value, bool) else int("")
    except (TypeError, ValueError):
        raise ChoiceError(f"{name} must be a whole number, found {value!r}") from None
