"""What linear maps and attention hand back: products of the rows that carry anything, by the quicker library.

What is asked at one position of a causal model reaches no later one, and above the last attention none but its own. So
rows of its gradient are exactly 0, and need no product. Weights get no gradient, and along the value path attention is
a constant, so that values are all that it hands back to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

from attnx.capturing.frozen.straight import Straight, no_view
from attnx.capturing.onednn import by_onednn, can_be_quicker

HELD_AT_MOST = 2**27
"""Bytes of the attention of one level that may be written out on the way back: 1,900 positions of 9 heads."""

KEPT_AT_MOST = 2**23
"""Bytes of it that are kept for the next way back: 480 positions of 9 heads."""

LARGE = 2**15
"""Numbers of a matrix from which on a product by itself is quicker than many at once."""

Compute: TypeAlias = Callable[[], Tensor]


def mapped(states: Tensor, weight: Tensor, compute: Compute) -> Tensor:
    """What `compute` gives, a linear map of `states` by a constant `weight`, given × taken."""
    result: Tensor = _Mapped.apply(states, weight, compute)  # type: ignore[no-untyped-call]
    return result


def can_be_mapped(states: Tensor, weight: Tensor) -> bool:
    """Whether a linear map is an ordinary product; quantised weights have maps of their own."""
    ordinary = type(weight) is Tensor and weight.layout is torch.strided and weight.ndim == 2
    moving = states.requires_grad and not weight.requires_grad and torch.is_grad_enabled()
    return ordinary and moving and states.device.type == "cpu" and weight.dtype.is_floating_point


def mixed(values: Tensor, attention: Compute, compute: Compute, *, often: bool) -> Tensor:
    """What `compute` gives: `values`, batch × head × key × width, mixed by an `attention` that is a constant.

    It is batch × head × query × key, written out where the way back needs it; heads may share their values in groups.
    Where the way back is gone `often`, a small one is kept.
    """
    result: Tensor = _Mixed.apply(values, attention, compute, often)  # type: ignore[no-untyped-call]
    return result


def can_be_written_out(query: Tensor, key: Tensor) -> bool:
    """Whether the attention of these fits in memory, query × key."""
    return query.numel() // query.shape[-1] * key.shape[-2] * query.element_size() <= HELD_AT_MOST


class _Mapped(Straight):
    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, compute: Compute) -> Tensor:
        ctx.weight, ctx.dtype = weight, states.dtype
        return no_view(compute())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        weight = ctx.weight.to(gradient.dtype)  # under autocast maps are of another precision
        rows = gradient.reshape(-1, gradient.shape[-1])
        first, last = _carrying(rows)
        found = _product(rows[first:last], weight)
        if last - first < len(rows):
            part, found = found, found.new_empty(len(rows), weight.shape[1])
            found[:first], found[first:last], found[last:] = 0, part, 0
        return found.reshape(*gradient.shape[:-1], weight.shape[1]).to(ctx.dtype), None, None


class _Mixed(Straight):
    @staticmethod
    def forward(ctx: Any, values: Tensor, attention: Compute, compute: Compute, often: bool) -> Tensor:
        ctx.turned, ctx.often, ctx.shape = None, often, values.shape
        ctx.attention = attention
        return no_view(compute())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        batch, heads, length, width = ctx.shape
        turned = ctx.turned
        if turned is None:  # queries of heads that share their values stand in one row
            weights = ctx.attention().to(gradient.dtype).reshape(batch * heads, -1, length)
            turned = weights.transpose(1, 2).contiguous()
        if ctx.often and turned.numel() * turned.element_size() <= KEPT_AT_MOST:
            ctx.turned = turned
        slopes = gradient.reshape(batch * heads, -1, width)
        if turned[0].numel() >= LARGE and can_be_quicker(turned, slopes):
            back = torch.stack([_product(*pair) for pair in zip(turned, slopes, strict=True)])
        else:
            back = turned @ slopes
        return back.reshape(ctx.shape), None, None, None


def _product(rows: Tensor, weight: Tensor) -> Tensor:
    return by_onednn(rows, weight.t()) if can_be_quicker(rows, weight) else rows @ weight


def _carrying(rows: Tensor) -> tuple[int, int]:
    """The first row that is not 0, and one behind the last."""
    moving = rows[:, 0].nonzero()
    if len(moving) == 0:
        return 0, len(rows)
    first, last = int(moving[0]), int(moving[-1]) + 1
    beside = (one for one in (rows[:first], rows[last:]) if len(one))
    return (0, len(rows)) if any(bool(one.any()) for one in beside) else (first, last)  # rows may begin with 0
