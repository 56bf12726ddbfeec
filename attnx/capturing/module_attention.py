"""torch's own attention module, computed openly: its values and weights are inside one function of torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attnx.attention.computed import attention_weights
from attnx.errors import CaptureError


@dataclass(frozen=True, eq=False)
class Opened:
    """One call of `multi_head_attention_forward`."""

    weights: Tensor
    """batch × head × query × key."""
    values: Tensor
    """batch × head × key × width."""
    mixed: Tensor
    """batch × head × query × width."""
    projection: Tensor
    bias: Tensor | None
    """Of the output projection."""
    output: Tensor
    """What the function returns, computed from the above, so that gradients pass through them."""


def opened(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Opened:
    """The call in its parts; the function is called beside it, and has to give the same."""
    bound = signature(func).bind(*args, **kwargs)
    bound.apply_defaults()
    given = bound.arguments
    if given["bias_k"] is not None or given["add_zero_attn"] or given["static_k"] is not None:
        raise CaptureError(
            "nn.MultiheadAttention has keys that are no positions here (add_bias_kv, add_zero_attn or static keys), "
            "so its values cannot be told by position"
        )
    heads, batched = given["num_heads"], given["query"].ndim == 3
    query, key, value = (
        _by_head(F.linear(states if batched else states[:, None], weight, bias), heads)
        for states, weight, bias in zip(
            (given["query"], given["key"], given["value"]), _weights(given), _biases(given), strict=True
        )
    )
    weights = attention_weights(query, key, mask=_mask(given, query, key))
    mixed = (weights @ value.to(weights.dtype)).to(value.dtype)
    states = mixed.permute(2, 0, 1, 3).flatten(2)
    output = F.linear(states, given["out_proj_weight"], given["out_proj_bias"])
    output = output if batched else output[:, 0]
    plain = func(*args, **kwargs)[0].detach()
    slack = 1e-4 if plain.dtype in (torch.float32, torch.float64) else 2e-2
    if not torch.allclose(output.detach(), plain, rtol=0, atol=slack * (1 + float(plain.abs().amax())), equal_nan=True):
        raise CaptureError("nn.MultiheadAttention, computed openly, gives another output; please report the model")
    return Opened(weights, value, mixed, given["out_proj_weight"], given["out_proj_bias"], output)


def _weights(given: Mapping[str, Any]) -> Sequence[Tensor]:
    if given["use_separate_proj_weight"]:
        return [given[f"{name}_proj_weight"] for name in "qkv"]
    return list(given["in_proj_weight"].chunk(3))


def _biases(given: Mapping[str, Any]) -> Sequence[Tensor | None]:
    bias = given["in_proj_bias"]
    return [None] * 3 if bias is None else list(bias.chunk(3))


def _by_head(states: Tensor, heads: int) -> Tensor:
    """position × batch × width → batch × head × position × width of a head."""
    return states.view(*states.shape[:-1], heads, -1).permute(1, 2, 0, 3)


def _mask(given: Mapping[str, Any], query: Tensor, key: Tensor) -> Tensor | None:
    """Additive, as the function understands its two masks: true forbids."""
    batch, heads, queries, _ = query.shape
    total: Tensor | None = None
    mask, padding = given["attn_mask"], given["key_padding_mask"]
    if mask is not None:
        shape = (batch, heads) if mask.ndim == 3 else (1, 1)
        total = _additive(mask, query).reshape(*shape, queries, key.shape[2])
    if padding is not None:
        hidden = _additive(padding, query).reshape(batch, 1, 1, key.shape[2])
        total = hidden if total is None else total + hidden
    return total


def _additive(mask: Tensor, like: Tensor) -> Tensor:
    if mask.dtype != torch.bool:
        return mask.to(like.dtype)
    return torch.zeros_like(mask, dtype=like.dtype).masked_fill(mask, -math.inf)
