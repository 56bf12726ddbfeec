"""What was seen of a block, and what was found in it: how attention joins the residual stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from attnx.attention.norms import FrozenNorm


@dataclass(frozen=True, eq=False)
class NormCall:
    """One call of a module that may be a norm: it has a number a channel, and no modules inside."""

    module: nn.Module
    entered: Tensor
    left: Tensor


@dataclass(eq=False)
class BlockCall:
    """One call of a block."""

    module: nn.Module
    states: Tensor
    """batch × position × width: the residual stream that enters."""
    first_record: int
    """How many attention calls there were before it."""
    precision: torch.dtype
    """In which it computes: that of the states, or of an autocast."""
    norms: list[NormCall] = field(default_factory=list)
    children: list[Tensor] = field(default_factory=list)
    """What the block's own modules gave."""
    left: Tensor | None = None
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    """What it was called with, where it is to be called again."""


@dataclass(frozen=True, eq=False)
class Joined:
    """How the attention of a batch joins the stream: r = x + branch(Σ T + bias), and what stands behind r."""

    states: Tensor
    """batch × position × width: x."""
    bias: Tensor
    """Of the output projection, zeros where it has none."""
    branch: FrozenNorm | None
    """A norm, or a constant for each channel, on attention's own branch."""
    norm: FrozenNorm | None
    """The norm behind the sum, where what goes on is its output (post-LN); None where r goes on as it is."""
    last: FrozenNorm | None
    """The norm that the block ends with, if it is another one."""
    miss: float
    """By how much the sum missed what was seen, as a share of the largest number of it."""
    met: Tensor
    """batch × row × width: the sum as it was seen."""
    rows: list[int] | slice
    """The positions at which it was."""
    on_branch: NormCall | None = None
    """The norm of the branch, if it is one."""

    def brought(self, index: int, kept: Tensor | None) -> dict[str, Tensor]:
        """Of one input, without its padding, as a level carries it."""
        states = self.states[index]
        found = {"states": states if kept is None else states[kept.to(states.device)], "bias": self.bias}
        for name, norm in (("branch", self.branch), ("norm", self.norm), ("last", self.last)):
            if norm is not None:
                scale = norm.scale[index]
                scale = scale if kept is None else scale[kept.to(scale.device)]
                found |= replace(norm, scale=scale).brought(name)
        return found | {"miss": torch.tensor(self.miss)}
