"""Rows of a batch that are equal because they hold the same token at the same place: most of those of many variants.

Until attention mixes positions they stay equal, so that what is computed of one of them is that of all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

_FEW = 1 / 2
"""Of all rows: with more kinds than that, looking for them costs what it saves."""


@dataclass(frozen=True, eq=False)
class Alike:
    """Which rows are of one kind."""

    kind: Tensor
    """Of each row of the batch, inputs after one another."""
    first: Tensor
    """A row of each kind."""

    @classmethod
    def of(cls, inputs: Mapping[str, Any]) -> Alike | None:
        """By the tokens of a batch on a CPU; None where it has none, or hardly any twice."""
        ids = inputs.get("input_ids")
        if not isinstance(ids, Tensor) or ids.ndim != 2 or ids.device.type != "cpu":
            return None
        length = ids.shape[1]
        kinds, kind = torch.unique((ids * length + torch.arange(length)).flatten(), return_inverse=True)
        if len(kinds) > _FEW * len(kind):
            return None
        return cls(kind, torch.empty_like(kinds).scatter_(0, kind, torch.arange(len(kind))))

    def holds(self, taken: Tensor) -> bool:
        """Whether the rows of a kind are equal, to the last bit."""
        if taken.shape[:2].numel() != len(self.kind) or taken.device.type != "cpu":
            return False
        return torch.equal(self.sample(taken)[self.kind].view_as(taken), taken)

    def sample(self, taken: Tensor) -> Tensor:
        """A row of each kind."""
        return taken.flatten(0, 1)[self.first]

    def spread(self, found: Tensor, taken: Tensor) -> Tensor:
        """What was found of the sample, for all rows."""
        return found[self.kind].view(*taken.shape[:2], -1)
