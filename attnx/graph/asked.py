"""What is asked of a graph: which layers and which positions, checked against what there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from attnx.errors import ChoiceError, whole_number

if TYPE_CHECKING:
    from torch import Tensor

Head: TypeAlias = int | Literal["each", "mean", "max", "min"]


@dataclass(frozen=True)
class Asked:
    """The layers and positions that an answer is about, and the axes that the caller does not want to see."""

    layers: tuple[int, ...]
    positions: tuple[int, ...]
    down_to: int = 1
    """The layer whose input the last axis is: 1 for the model's own."""
    one_layer: bool = False
    one_position: bool = False

    @classmethod
    def of(
        cls,
        layers: int,
        length: int,
        *,
        layer: int | None = None,
        position: int | Sequence[int] | None = None,
        down_to: int = 1,
    ) -> Asked:
        """Of a graph with so many layers and positions; None is all of them."""
        chosen = tuple(range(1, layers + 1)) if layer is None else (check_layer(layer, layers),)
        if not 1 <= down_to <= chosen[-1]:
            raise ChoiceError(f"down_to={down_to} asked; it must be between 1 and the layer, {chosen[-1]}")
        return cls(
            layers=tuple(one for one in chosen if one >= down_to),
            positions=check_positions(position, length),
            down_to=down_to,
            one_layer=layer is not None,
            one_position=position is not None and not isinstance(position, Sequence),
        )

    @property
    def depths(self) -> tuple[int, ...]:
        """For each layer, through how many an answer goes."""
        return tuple(layer - self.down_to + 1 for layer in self.layers)

    def all_of(self, length: int) -> bool:
        """Whether every position is asked for, in order."""
        return not self.one_position and self.positions == tuple(range(length))

    def shaped(self, relevance: Tensor, head: Head) -> Tensor:
        """Of layer × head × position × input the axes that the caller expects."""
        if self.one_position:
            relevance = relevance.squeeze(2)
        if head != "each":
            relevance = relevance.squeeze(1)
        return relevance.squeeze(0) if self.one_layer else relevance


def check_layer(layer: int, layers: int) -> int:
    layer = whole_number("layer", layer)
    if not 1 <= layer <= layers:
        raise ChoiceError(f"layer {layer} asked, model has {layers} (1 is next to the input)")
    return layer


def check_positions(position: Any, length: int) -> tuple[int, ...]:
    """One position, several, or None for all; a text is a sequence, too, and no list of positions."""
    if position is None:
        return tuple(range(length))
    several = isinstance(position, Sequence) and not isinstance(position, str)
    if not several:
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


def check_head_name(head: str) -> None:
    """A head that is a word."""
    if head not in ("each", "mean", "max", "min"):
        raise ChoiceError(f"head {head!r} is not known; give a number from 0, 'each', 'mean', 'max' or 'min'")


def check_head(head: Head | None, heads: int, merged: str | None) -> Head:
    """The head or merger that is asked for; None is how they were merged as they arrived, or their mean."""
    if head is None:
        return cast(Head, merged or "mean")
    if isinstance(head, str):
        check_head_name(head)
    else:
        head = whole_number("head", head)
    if merged and head != merged:
        raise ChoiceError(
            f"head {head!r} asked, but the heads were merged ({merged}) while capturing; capture with head=None"
        )
    if not isinstance(head, str) and not 0 <= head < heads:
        raise ChoiceError(f"head {head} asked, model has {heads} (0 to {heads - 1})")
    return head
