"""What each query may attend to: causal, window and padding masks, read off the numbers that the model itself used."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnx._signals import cached_property
from attnx.errors import ChoiceError


def on_cpu(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu"


NEVER = -700.0
"""exp(−700) is about the least that float64 holds: a score so far below its row's best is a mask, not a preference."""

_ROWS_AT_ONCE = 512


@dataclass(frozen=True, eq=False)
class Mask:
    """The mask of a layer. Layers that have one mask share this object, and with it what is computed from it once."""

    length: int
    device: torch.device
    source: Tensor | None = None
    """n × n, or (head or 1) × n × n: boolean (true = may attend) or additive. None: all may attend, or the triangle."""
    triangular: bool = False
    """Whether each query sees itself and what is before it, and nothing else; there is no source then."""
    queries: int | None = None
    """How many attend, where they are others than the `length` keys (cross-attention)."""

    @property
    def rows(self) -> int:
        return self.length if self.queries is None else self.queries

    def visible(self, start: int, stop: int) -> Tensor:
        """query × key, true where the queries from `start` up to `stop` may attend.

        A key is visible when any head can see it: with ALiBi the steep heads lose sight of what the others see.
        """
        if self.triangular:
            positions = torch.arange(self.length, device=self.device)
            return positions[start:stop, None] >= positions
        if self.source is None:
            return torch.ones((), dtype=torch.bool, device=self.device).expand(stop - start, self.length)
        rows = is_visible(self.source[..., start:stop, :])
        return (rows if rows.ndim == 2 else rows.any(0)).to(self.device)

    @cached_property
    def causal(self) -> bool:
        """Whether no query sees a later position."""
        if self.source is None:
            return self.triangular or self.length == 1
        return not any(bool(rows.triu(start + 1).any()) for start, rows in self._parts())

    @cached_property
    def queries_per_key(self) -> Tensor:
        """How many queries see each key."""
        if self.source is None:
            positions = torch.arange(self.length, device=self.device)
            return self.length - positions if self.triangular else torch.full_like(positions, self.rows)
        return torch.stack([rows.sum(0) for _, rows in self._parts()]).sum(0)

    def cropped(self, kept: Tensor, queries: Tensor | None = None) -> Mask:
        """The mask over the `kept` positions alone, as seen by these `queries`, by default the same positions."""
        source, rows = self.source, kept if queries is None else queries
        if source is not None:
            source = source[..., rows.to(source.device), :][..., kept.to(source.device)]
        return replace(self, length=len(kept), source=source, queries=None if self.queries is None else len(rows))

    def _parts(self) -> list[tuple[int, Tensor]]:
        starts = range(0, self.rows, _ROWS_AT_ONCE)
        return [(start, self.visible(start, min(start + _ROWS_AT_ONCE, self.rows))) for start in starts]


def is_visible(mask: Tensor) -> Tensor:
    """Where a boolean or an additive mask leaves any weight to a key."""
    return mask if mask.dtype == torch.bool else mask - mask.amax(-1, keepdim=True) > NEVER


def visible_from_scores(scores: Tensor) -> Tensor | None:
    """Where scores, or an additive mask, leave any weight to a key: (batch) × query × key, or None for all."""
    return visible_from_mask(is_visible(scores.detach()))


def visible_from_mask(mask: Tensor) -> Tensor | None:
    """The same for a boolean mask (true = may attend), with or without batch and head axes.

    None only saves memory: on an accelerator, which would have to be waited for, a mask may be true everywhere.
    """
    seen = mask.flatten(1, -3).any(1) if mask.ndim >= 4 else mask
    if on_cpu(seen) and bool(seen.all()):
        return None
    return seen if seen.ndim == 3 else seen[None]


def causal_mask(queries: int, keys: int, device: torch.device) -> Tensor:
    """query × key, true on and below the diagonal, as torch's `is_causal=True` defines it."""
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril()


def first_visible_position(seen: Tensor, *, causal: bool) -> int:
    """The first position that any query sees, which in a causal model is the sink."""
    if not causal:
        raise ChoiceError(
            "a sink is the first token of a decoder; in this model queries see later positions, and none is first"
        )
    return int(seen.to(torch.int8).argmax())
