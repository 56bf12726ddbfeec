"""A sound as a model reads it: whose each number is that goes in, and how another sound would go in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from attnx.inputs.waves import Samples, Sound

Cell: TypeAlias = tuple[slice, ...]
"""A part of a tensor."""


@dataclass(frozen=True, eq=False)
class Heard:
    """What blanking by silence and attribution to positions need to know."""

    entry: str
    """The name of the tensor that goes in."""
    cells: tuple[Cell | None, ...]
    """For each position of the sound, its own part of that tensor; parts of two positions do not overlap."""
    sound: Sound | None = None
    """At the model's rate; None where frames of a spectrum were given."""
    process: Callable[[Samples], Tensor] | None = None
    """From samples to that tensor, as the processor makes it; None where the tensor was given."""
    banded: bool = False
    """Whether positions divide the spectrum as well as time."""
    time: int = 0
    """The axis of time of that tensor."""

    def quiet(self, values: Tensor) -> Tensor:
        """What stands for silence in such a tensor: no sound at all, or the least that each channel has anywhere."""
        return torch.zeros_like(values) if values.ndim == 1 else values.amin(self.time, keepdim=True).expand_as(values)

    def pooled(self, numbers: Tensor) -> Tensor:
        """One number for each position: the sum over its own part of a tensor like the one that goes in."""
        nothing = numbers.sum() * 0
        return torch.stack([nothing if cell is None else numbers[cell].sum() for cell in self.cells])
