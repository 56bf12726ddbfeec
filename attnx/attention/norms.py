"""A norm as the linear map that it was in one run: its scale is a constant of each position.

LN(r_i) = gain ⊙ (r_i − mean of r_i) · scale_i + shift, and of an RMS norm no mean is taken. With the scale frozen the
norm of a sum is the sum of its parts, so each part can be followed through it. A constant for each channel, as vision
models have before a residual connection, is such a map as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class FrozenNorm:
    """gain ⊙ (z − mean of z) · scale + shift."""

    gain: Tensor
    """A number a channel."""
    scale: Tensor
    """A number a position, above 0; with a batch axis before it while the model runs."""
    shift: Tensor
    """A number a channel, which belongs to no part of a sum."""
    centred: bool
    """Whether the mean is taken out."""

    def unscaled(self, vectors: Tensor) -> Tensor:
        """… × width: the linear map without its scale, which is the same for all parts of a position."""
        gain = self.gain.to(vectors)
        return gain * (vectors - vectors.mean(-1, keepdim=True) if self.centred else vectors)

    def __call__(self, states: Tensor) -> Tensor:
        """What the norm gave for all positions."""
        return self.unscaled(states) * self.scale.to(states)[..., None] + self.shift.to(states)

    def brought(self, name: str) -> dict[str, Tensor]:
        """The norm of one input as a level carries it."""
        centred = torch.tensor(self.centred)
        parts = {"gain": self.gain, "scale": self.scale, "shift": self.shift, "centred": centred}
        return {f"{name}.{part}": tensor for part, tensor in parts.items()}

    @classmethod
    def of(cls, brought: Mapping[str, Any], name: str) -> FrozenNorm | None:
        """The norm of that name that a level carries, if there is one."""
        if f"{name}.gain" not in brought:
            return None
        gain, scale, shift, centred = (brought[f"{name}.{part}"] for part in ("gain", "scale", "shift", "centred"))
        return cls(gain, scale, shift, bool(centred))
