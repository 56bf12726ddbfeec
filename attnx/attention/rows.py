"""Rows of attention: scaled to sum to 1, merged over heads, and checked to be attention at all."""

from __future__ import annotations

from typing import Literal, TypeAlias, cast

import torch
from torch import Tensor

from attnx.errors import AttentionError

Merger: TypeAlias = Literal["mean", "max", "min"]
MERGERS: tuple[Merger, ...] = ("mean", "max", "min")

ROW_SUM_SLACK = 1e-4
"""How far above 1 a row may sum in single or double precision; half precision is given its own rounding."""


def rows_to_one(weights: Tensor) -> Tensor:
    """Divide each row by its sum; a row of zeros stays zero."""
    sums = weights.sum(-1, keepdim=True)
    return weights / torch.where(sums > 0, sums, 1)


def merge_heads(weights: Tensor, how: Merger, dim: int = 0) -> Tensor:
    """… × query × key with the heads of one axis merged; what is no mean is scaled back to rows of 1."""
    if how == "mean":
        return weights.mean(dim)
    return rows_to_one(weights.amax(dim) if how == "max" else weights.amin(dim))


def is_attention(weights: Tensor) -> bool:
    """Whether all of … × query × key is attention: two numbers tell."""
    weights = weights.detach()
    return bool(_sums(weights).max() <= 1 + _slack(weights)) and bool(weights.min() >= 0)


def check_attention(heads: Tensor, level: int) -> None:
    """That head × query × key is attention: an error names the level and the row that is not."""
    if is_attention(heads):
        return
    heads = heads.detach()
    sums, slack = _sums(heads), _slack(heads)
    bad = ~(sums <= 1 + slack) | (heads.amin(-1) < 0)
    if bool(bad.any()):
        head, row = cast(list[int], bad.nonzero()[0].tolist())
        raise AttentionError(
            f"layer {level}, head {head}, row {row} is not attention: weights must be ≥ 0 and sum to at most 1, "
            f"found minimum {heads[head, row].min().item():.6g} and sum {sums[head, row].item():.6g}"
        )


def _sums(weights: Tensor) -> Tensor:
    return weights.sum(-1, dtype=torch.promote_types(weights.dtype, torch.float32))


def _slack(weights: Tensor) -> float:
    return max(ROW_SUM_SLACK, torch.finfo(weights.dtype).eps) if weights.is_floating_point() else 0.0
