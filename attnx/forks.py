"""A forked process has one thread only: what another one held at that moment nobody gives back, unless it is told."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


def in_every_child(action: Callable[[], None]) -> None:
    """Do this in each process that is forked from now on, before anything else runs there."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=action)


class cached_property(functools.cached_property[T], Generic[T]):  # noqa: N801 - as Python's own
    """Python's own without its lock: in 3.11 it has one for all objects of a class, which a fork may leave taken.

    Two threads may compute a value twice, to the same result.
    """

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> cached_property[T]: ...

    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T: ...

    def __get__(self, instance: object | None, owner: type[Any] | None = None) -> cached_property[T] | T:
        if instance is None:
            return self
        kept: dict[str | None, T] = vars(instance)  # type: ignore[assignment]
        if self.attrname not in kept:
            kept[self.attrname] = self.func(instance)
        return kept[self.attrname]
