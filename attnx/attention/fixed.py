"""A level that is no attention: a fixed map from some positions to others, without a residual.

A projector between a vision tower and a decoder is one. An image token is made of the patches that it reads, each with
an equal share, and of nothing that stood at its place before. No weighting and no share of the residual changes that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from attnx.attention.levels import Behind, Block, Level
from attnx.attention.naming import PROJECTOR
from attnx.attention.visibility import Mask


@dataclass(frozen=True, eq=False)
class Fixed:
    """One head whose rows are what they are, whatever is asked."""

    fixed: ClassVar[bool] = True

    weights: Tensor
    """own query × key, over all positions; each row sums to 1."""
    own: slice
    mask: Mask
    module: str = ""
    kind: str = PROJECTOR
    heads: int = 1
    whole: bool = True
    brought: Mapping[str, Tensor] = field(default_factory=dict)
    rest: Behind | None = None

    @classmethod
    def of(cls, reads: Mapping[int, Sequence[int]], length: int, device: torch.device) -> Fixed:
        """Each position that reads others is their mean; all others stay what they are."""
        own = slice(min(reads), max(reads) + 1)
        weights = torch.eye(length, device=device)[own].clone()
        for position, read in reads.items():
            weights[position - own.start] = 0
            weights[position - own.start, list(read)] = 1 / len(read)
        visible = torch.eye(length, dtype=torch.bool, device=device)
        visible[own] = weights > 0
        return cls(weights, own, Mask(length, device, visible))

    def rows(self, start: int, stop: int) -> Block:
        return Block(0, self.weights[None, start - self.own.start : stop - self.own.start])

    def cropped(self, kept: Tensor, mask: Mask, queries: Tensor | None = None) -> Level:
        raise NotImplementedError("padding is cut out of each stream before levels are placed")

    def bringing(self, brought: Mapping[str, Tensor]) -> Level:
        return self
