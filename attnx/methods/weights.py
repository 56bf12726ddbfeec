"""Attention as it is brought: an `AttentionTensor`, a `LongAttention`, a tensor, an array, or a tuple of layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnx.attention import AttentionTensor
from attnx.errors import AttentionError
from attnx.long_attention import LongAttention


def attention_weights(attention: Any) -> Tensor:
    """layer × head × n × n; of a `LongAttention` the shape alone."""
    weights = _tensor(attention)
    if weights.ndim != 4 or weights.shape[-1] != weights.shape[-2] or 0 in weights.shape:
        hints = {
            3: "; for one head per layer add the axis: attention[:, None]",
            5: "; there is a batch axis in it: take one input, attention[:, index]",
        }
        raise AttentionError(
            f"attention must be layer × head × n × n, found shape {tuple(weights.shape)}{hints.get(weights.ndim, '')}"
        )
    # Apple's GPUs have no float64, in which every sum here is made.
    return weights.cpu() if weights.device.type == "mps" else weights


def _tensor(attention: Any) -> Tensor:
    """The weights as a tensor, also of `outputs.attentions`: a tuple of layers, each 1 × head × n × n."""
    if isinstance(attention, AttentionTensor):
        return attention.weights
    if isinstance(attention, LongAttention):
        return torch.empty(attention.layers, attention.heads, *2 * (attention.length,), device="meta")
    if isinstance(attention, Tensor):
        return attention
    try:
        if isinstance(attention, (tuple, list)) and attention and isinstance(attention[0], Tensor):
            stacked = torch.stack(tuple(attention))
            return stacked[:, 0] if stacked.ndim == 5 and stacked.shape[1] == 1 else stacked
        # torch takes neither read-only arrays nor those of another byte order.
        array = np.array(attention)
        return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=False))
    except (TypeError, ValueError, RuntimeError) as error:
        raise AttentionError(
            f"attention must be a layer × head × n × n array, found {type(attention).__name__}: {error}"
        ) from error
