"""What is known of a model's tensors while it runs: what each is a function of, and which one is attention."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from torch import Tensor


@dataclass(frozen=True, eq=False)
class FunctionOf:
    """The tensor is an elementwise function of `root`; where it is one call, `compute` gives its value anew."""

    root: Tensor
    compute: Callable[[Tensor], Tensor] | None = None


@dataclass(frozen=True)
class Softmax:
    """The tensor is the result of a softmax over its last axis: attention, if it goes on to mix values."""


@dataclass(frozen=True, eq=False)
class Linear:
    """The tensor is a linear map, which `compute` makes anew."""

    compute: Callable[[], Tensor]


@dataclass(frozen=True, eq=False)
class Ids:
    """The tensor has the ids of `origin` that stand at these places, counted through it; some may be others since."""

    origin: Tensor
    places: Tensor


Mark: TypeAlias = FunctionOf | Softmax | Linear | Ids
Versions: TypeAlias = tuple[int, ...]


class Marks:
    """A mark for some tensors, for as long as they live and hold the same numbers."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Tensor], Mark, Versions]] = {}

    def put(self, tensor: Tensor, mark: Mark) -> None:
        key = id(tensor)
        self._known[key] = (weakref.ref(tensor, lambda _: self._known.pop(key, None)), mark, _versions(tensor, mark))

    def of(self, tensor: Any) -> Mark | None:
        reference, mark, versions = self._known.get(id(tensor), (None, None, ()))
        marked = None if reference is None else reference()
        if mark is None or marked is None or marked is not tensor:
            return None
        return mark if versions == _versions(marked, mark) else None

    def clear(self) -> None:
        self._known.clear()


def _versions(tensor: Tensor, mark: Mark) -> Versions:
    """How often what the mark is about was changed in place; attention that was is attention still, and ids are ids."""
    if isinstance(mark, (Softmax, Ids)):
        return ()
    about = (tensor, mark.root) if isinstance(mark, FunctionOf) else (tensor,)
    return tuple(one._version for one in about)
