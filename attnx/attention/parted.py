"""A level in several parts, none of which sees another: the tiles of a picture, or several pictures.

Their positions stand one behind the other, and their attention is a map with blocks along its diagonal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from attnx.attention.levels import Behind, Block, Level, all_keys
from attnx.attention.visibility import Mask
from attnx.forks import cached_property

KEYED = "values"
BY_QUERY = ("states", "gates", "gradient", "scale")
"""What a level brings for each query, by the end of its name; values are brought for each key."""


@dataclass(frozen=True, eq=False)
class Parted:
    """Levels of one layer, side by side."""

    fixed: ClassVar[bool] = False

    parts: tuple[Level, ...]
    mask: Mask
    kind: str = ""
    rest: Behind | None = None

    @classmethod
    def of(cls, parts: Sequence[Level]) -> Level:
        """The level of these parts; a single one is itself."""
        if len(parts) == 1:
            return parts[0]
        device, length, begin = parts[0].mask.device, sum(part.mask.length for part in parts), 0
        visible = torch.zeros(length, length, dtype=torch.bool, device=device)
        for part in parts:
            end = begin + part.mask.length
            visible[begin:end, begin:end] = part.mask.visible(0, part.mask.rows)
            begin = end
        return cls(tuple(parts), Mask(length, device, visible))

    @property
    def module(self) -> str:
        return self.parts[0].module

    @property
    def heads(self) -> int:
        return self.parts[0].heads

    @property
    def whole(self) -> bool:
        return all(part.whole for part in self.parts)

    @property
    def own(self) -> slice:
        return slice(0, self.mask.length)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where each part begins, and the end of the last."""
        ends = [0]
        for part in self.parts:
            ends.append(ends[-1] + part.mask.length)
        return tuple(ends)

    @cached_property
    def brought(self) -> Mapping[str, Tensor]:
        """What the parts bring for each of their positions, one behind the other; the rest is the same for all."""
        found = {}
        for name, first in self.parts[0].brought.items():
            ending = name.rpartition(".")[2]
            several = [part.brought[name] for part in self.parts]
            if name == KEYED:
                found[name] = torch.cat(several, dim=1)
            elif ending == "scale":
                found[name] = torch.cat(several)
            elif ending in BY_QUERY and first.numel() > 1:
                found[name] = torch.cat(several, dim=first.ndim - 2)
            else:
                found[name] = first
        return found

    def rows(self, start: int, stop: int) -> Block:
        blocks = []
        for part, begin, end in zip(self.parts, self.starts, self.starts[1:], strict=False):
            first, last = max(start, begin), min(stop, end)
            if first < last:
                own = all_keys(part.rows(first - begin, last - begin), part.mask.length)
                wide = own.new_zeros(*own.shape[:2], self.mask.length)
                wide[..., begin:end] = own
                blocks.append(wide)
        return Block(0, torch.cat(blocks, dim=1))

    def cropped(self, kept: Tensor, mask: Mask, queries: Tensor | None = None) -> Level:
        raise NotImplementedError("pictures have no padding that could be cut out")

    def bringing(self, brought: Mapping[str, Tensor]) -> Level:
        raise NotImplementedError("what is brought later is brought to one stack")
