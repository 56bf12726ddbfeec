"""A product with attention from the left is attention with queries and keys transposed: no row is ever materialized.

Row q of attention is exp(s(q, k) − z(q)) over its keys, z(q) the logarithm of its sum, which fused kernels know. So

    Σ_q v(q) · A(q, k)  =  Σ_q exp(s(q, k) − z(q)) · v(q)

is for each key an unscaled mean over the queries, weighted by exp of a product of two vectors: (k, 1) and (q, −z(q)).
That is what the same kernel computes when keys look at queries, but for the sum by which it divides, and it returns
that, too. Behind a causal mask a key gets from itself and what comes later: in reversed order a causal mask again.
All vectors go through in one call, as the values. torch's kernel for CPUs does this with all cores; elsewhere, and
where a mask is a tensor, rows are computed in blocks (`graph.edges`).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend

from attnx.attention.layers import AttentionLayer, ComputedLayer, made, repeat_kv

_SLACK = 1e-4
"""By how much less or more than the vectors had may come out, as a share; rows of attention sum to 1."""


def sdpa_with_logsumexp(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> tuple[Tensor, Tensor] | None:
    """What `scaled_dot_product_attention` gives, to the bit, and z, batch × head × query; None without z."""
    causal, scale = bool(options.get("is_causal")), options.get("scale")
    whole = options.get("attn_mask") is None and not options.get("dropout_p")
    tracked = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (query, key, value))
    if not whole or tracked or query.device.type != "cpu" or query.dtype not in (torch.float32, torch.float64):
        return None
    try:
        grouped = bool(options.get("enable_gqa"))
        chosen = torch._fused_sdp_choice(query, key, value, is_causal=causal, scale=scale, enable_gqa=grouped)
        if chosen != SDPBackend.FLASH_ATTENTION.value:
            return None
        key, value = (repeat_kv(tensor, query.shape[1]) for tensor in (key, value))
        return _kernel(query, key, value, causal, scale)
    except (AttributeError, RuntimeError, TypeError):  # torch promises neither of the two
        return None


def pulled(layer: AttentionLayer, vectors: Tensor) -> Tensor | None:
    """vectors · A with the mean of all heads: vector × key, in float64; None where it must be made from rows."""
    layer = made(layer)
    if not isinstance(layer, ComputedLayer) or layer.sums is None:
        return None
    seen = _first_queries(layer, vectors)
    width = layer.query.shape[-1] + 1
    tensor = torch.zeros_like(vectors, dtype=torch.float64)
    tensor[:, :seen] = torch.cat(
        [_pulled(layer, layer.sums, some[:, :seen], seen) for some in torch.split(vectors, width)]
    )
    kept, had = tensor.sum(-1), vectors.sum(-1)
    return tensor if bool(((kept - had).abs() <= _SLACK * vectors.abs().sum(-1)).all()) else None


def _first_queries(layer: ComputedLayer, vectors: Tensor) -> int:
    """Behind a causal mask what comes after the last query that any vector gives weight has no part in it."""
    tensor = vectors.any(0).nonzero()
    return int(tensor[-1]) + 1 if layer.mask.triangular and len(tensor) else vectors.shape[-1]


def _pulled(layer: ComputedLayer, sums: Tensor, vectors: Tensor, length: int) -> Tensor:
    """The same of the first positions, for at most as many vectors as values have columns."""
    heads, _, width = layer.query.shape
    scale = 1 / math.sqrt(width) if layer.scale is None else layer.scale
    key = repeat_kv(layer.key[None, :, :length], heads)[0]
    looking = _turned(layer, torch.cat([key, torch.ones_like(key[..., :1])], -1))
    seen = _turned(layer, torch.cat([layer.query, (-sums / scale)[..., None]], -1)[:, :length])
    values = seen.new_zeros(length, width + 1)
    values[:, : len(vectors)] = _turned(layer, vectors.t())
    means, logs = _kernel(looking, seen, values.expand(heads, -1, -1), layer.mask.triangular, scale)
    tensor = vectors.new_zeros(length, len(vectors), dtype=torch.float64)
    for mean, log in zip(means, logs, strict=True):
        tensor += mean[:, : len(vectors)].double() * log.double().exp()[:, None]
    return _turned(layer, tensor / heads).t()


def _turned(layer: ComputedLayer, tensor: Tensor) -> Tensor:
    """… × position × width, behind a causal mask from the last position to the first."""
    return tensor.flip(-2) if layer.mask.triangular else tensor


def _kernel(query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: float | None) -> tuple[Tensor, Tensor]:
    """(batch ×) head × position × width, and the logarithms of the rows' sums."""
    lead = () if query.ndim == 4 else (None,)
    batch = (tensor[lead] for tensor in (query, key, value))
    output, sums = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(*batch, 0.0, causal, scale=scale)
    return (output, sums) if query.ndim == 4 else (output[0], sums[0])
