"""A level whose queries and keys are made again where they are read, because those of all levels would not fit.

Methods read one level after the other, so what was made last is kept until another level is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeVar

from torch import Tensor

from attnx.attention.computed import Computed
from attnx.attention.levels import Behind, Block, Level
from attnx.attention.visibility import Mask


class Latest:
    """What was made last, of all levels of one run."""

    def __init__(self) -> None:
        self._make: Callable[[], Computed] | None = None
        self._made: Computed | None = None

    def of(self, make: Callable[[], Computed]) -> Computed:
        if self._made is not None and make is self._make:
            return self._made
        self._make, self._made = None, None  # let go of the other one before there are two
        made = make()
        self._make, self._made = make, made
        return made


@dataclass(frozen=True, eq=False)
class Anew:
    """A level as `Computed` is one, of which there is nothing but how it is made."""

    fixed: ClassVar[bool] = False

    make: Callable[[], Computed]
    latest: Latest
    heads: int
    mask: Mask
    total: Tensor
    """The sum of its queries and keys, which is finite where all of them are."""
    module: str = ""
    brought: Mapping[str, Tensor] = field(default_factory=dict)
    whole: bool = False
    rest: Behind | None = None
    kind: str = ""

    @property
    def own(self) -> slice:
        return slice(0, self.mask.length)

    def made(self) -> Computed:
        return self.latest.of(self.make)

    def rows(self, start: int, stop: int) -> Block:
        return self.made().rows(start, stop)

    def cropped(self, kept: Tensor, mask: Mask, queries: Tensor | None = None) -> Computed:
        return replace(self.made().cropped(kept, mask, queries), brought=self.brought, rest=self.rest, kind=self.kind)

    def bringing(self, brought: Mapping[str, Tensor]) -> Anew:
        return replace(self, brought={**self.brought, **brought})


L = TypeVar("L", bound=Level)


def made(level: L | Anew) -> L | Computed:
    """The level itself, or what it is when it is made."""
    return level.made() if isinstance(level, Anew) else level
