"""Attention weights from queries and keys, beside a fused kernel that does not give them."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attnx.errors import CaptureError

TOLERANCE = {torch.float16: 2e-2, torch.bfloat16: 8e-2}
"""How far two ways to compute the same numbers may differ in half precision; in float32, 1e-4."""

_ROWS_CHECKED = 8


def attention_weights(
    query: Tensor,
    key: Tensor,
    *,
    mask: Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """softmax(scale · Q·Kᵀ + mask), batch × head × query × key, in float32 or better.

    `key` may have fewer heads than `query` (each shared by a group); `mask` is boolean (true = may look) or additive.
    `softcap` bounds the scores as Gemma 2 does; `sinks` are the scores, one a head, of a key that is not an input
    (gpt-oss), so that rows sum to less than 1. A query that may see nothing has a row of zeros.
    """
    dtype = torch.promote_types(query.dtype, torch.float32)
    with torch.autocast(query.device.type, enabled=False):
        query, key = query.to(dtype), key.to(dtype)
        key = per_query_head(key, query.shape[1])
        scores = query @ key.transpose(-2, -1) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
        if sinks is not None:
            column = sinks.to(dtype).view(1, -1, 1, 1).expand(scores.shape[0], -1, scores.shape[2], 1)
            return torch.cat([scores, column], dim=-1).softmax(-1)[..., :-1]
        weights = scores.softmax(-1)
        if mask is None:
            return weights
        return weights.masked_fill((scores == -math.inf).all(-1, keepdim=True), 0)


def per_query_head(tensor: Tensor, heads: int) -> Tensor:
    """Keys or values repeated for each query head that shares them (grouped-query attention)."""
    if tensor.ndim != 4 or tensor.shape[1] == heads:
        return tensor
    return tensor.repeat_interleave(heads // tensor.shape[1], dim=1)


def rows_checked(queries: int) -> list[int]:
    """The few rows, spread over all, on which a kernel's output is checked."""
    return list(range(0, queries, -(-queries // _ROWS_CHECKED)))


def check_mixture(weights: Tensor, values: Tensor, output: Tensor, module: str) -> None:
    """Prove on a few rows that these weights, and no others, made the kernel's output from the values."""
    if not bool(weights.isfinite().all()):
        return  # reported with its layer when all layers are in
    rows = rows_checked(weights.shape[-2])
    check_rows(weights[..., rows, :], values, output[..., rows, :], module)


def check_rows(weights: Tensor, values: Tensor, output: Tensor, module: str) -> None:
    """The same for rows that were picked already: `weights` of some queries, and the kernel's output for them."""
    if not bool(values.isfinite().all()):
        raise CaptureError(
            f"the values in {module or 'the model'} are not finite: the model's weights or its input have NaN or "
            "infinity. Check the checkpoint; half precision may need float32: model.float()"
        )
    values = values.detach().to(weights.dtype)
    values = per_query_head(values, weights.shape[1])
    with torch.autocast(weights.device.type, enabled=False):
        mixed = weights.detach() @ values
    seen = output.detach().to(weights.dtype)
    slack = TOLERANCE.get(output.dtype, 1e-4) * (1 + float(values.abs().amax()))
    if not torch.allclose(mixed, seen, rtol=0, atol=slack, equal_nan=True):
        raise CaptureError(
            f"the attention weights seen in {module or 'the model'} do not reproduce its output (difference "
            f"{float((mixed - seen).abs().amax()):.2g}); please report the model, and try backend='interface'"
        )
