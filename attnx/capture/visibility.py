"""What each query could see: causal, window and padding masks, read off the numbers that the model itself used."""

from __future__ import annotations

import torch
from torch import Tensor

from attnx.long_attention import may_look


def visible_scores(scores: Tensor) -> Tensor | None:
    """Where attention scores, or an additive mask, leave any weight to a key: (batch) × query × key, or None for all.

    A key is visible to a query when any head can see it: with ALiBi the steep heads lose sight of what the others see.
    """
    return visible_mask(may_look(scores.detach()))


def visible_mask(mask: Tensor) -> Tensor | None:
    """The same for a boolean mask (true = may look), with or without batch and head axes."""
    seen = mask.flatten(1, -3).any(1) if mask.ndim >= 4 else mask
    if bool(seen.all()):
        return None
    return seen if seen.ndim == 3 else seen[None]


def causal_mask(queries: int, keys: int, device: torch.device) -> Tensor:
    """query × key, true on and below the diagonal, as torch's `is_causal=True` defines it."""
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril()
