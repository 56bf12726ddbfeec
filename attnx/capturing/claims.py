"""Claims about the numbers of a run, settled when it is over.

To ask a tensor for its value makes the program wait for the device that computes it. A check of each layer would make a
GPU stand still once a layer; so each layer leaves a claim behind, and all of them are read at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Claim:
    """Something that must be so."""

    holds: Tensor
    """One boolean, where it was computed."""
    error: Callable[[], Exception]
    """What to raise where it is not so; asked only then."""


def settle(claims: Sequence[Claim]) -> None:
    """Raise the error of the first claim that does not hold. One read for each device."""
    held = [True] * len(claims)
    for device in {claim.holds.device for claim in claims}:
        places = [place for place, claim in enumerate(claims) if claim.holds.device == device]
        for place, holds in zip(places, torch.stack([claims[place].holds for place in places]).tolist(), strict=True):
            held[place] = holds
    for claim, holds in zip(claims, held, strict=True):
        if not holds:
            raise claim.error()
