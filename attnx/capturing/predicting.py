"""A decoder that predicts in streams of its own, as ProphetNet does, is one stream of more positions than tokens.

Beside the tokens stand positions that hold no token, only a place: those of the first stream predict the next token,
those of a second the one behind it. One layer attends in two calls. The first writes tokens from tokens, n × n; the
second, for each stream, its positions from the tokens and from themselves, n × 2n. Neither reads what the other writes,
so together they are one square map over the tokens and all streams: in it a stream's columns are empty for all others.
"""

from __future__ import annotations

import torch
from torch import Tensor


def together(weights: Tensor, values: Tensor, further: Tensor, further_values: Tensor) -> Tensor | None:
    """batch × head × m × m for m = (1 + streams) · n; None where these are not two calls of that kind.

    `weights` are those of the tokens, batch × head × n × n, and `further` those of the streams, batch × stream × head ×
    n × 2n. That the first n keys are the tokens is seen by their values, which are the very same in both calls.
    """
    batch, streams, heads, length, keys = further.shape
    if weights.shape != (batch, heads, length, length) or keys != 2 * length:
        return None
    if further_values.ndim != 5 or values.shape != (batch, heads, length, further_values.shape[-1]):
        return None
    of_tokens = further_values[..., :length, :]
    if not torch.equal(of_tokens, values[:, None].expand_as(of_tokens)):
        return None
    size = (1 + streams) * length
    whole = weights.new_zeros(batch, heads, size, size)
    whole[..., :length, :length] = weights
    for stream in range(streams):
        own = slice((1 + stream) * length, (2 + stream) * length)
        whole[..., own, :length] = further[:, stream, ..., :length]
        whole[..., own, own] = further[:, stream, ..., length:]
    return whole
