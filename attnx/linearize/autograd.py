"""What linear maps and attention hand back: products of the rows that carry anything, by the quicker library.

What is asked at one position of a causal model reaches no later one, and above the last attention none but its own. So
rows of its gradient are exactly 0, and need no product. Weights get no gradient, and along the value path attention is
a constant, so that values are all that it hands back to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from attnx.linearize.matmul import can_use_onednn, onednn_linear


def on_line(root: Tensor, value: Callable[[], Tensor]) -> Tensor:
    """A `value`, an elementwise function of `root`, with the gradient of the line through 0 and this point."""
    line: Tensor = _Line.apply(root, value)  # type: ignore[no-untyped-call]
    return line


def gated(
    root: Again,
    other: Again,
    compute: Callable[[Tensor], Tensor],
    product: Callable[[], Tensor],
    *,
    often: bool = False,
) -> Tensor:
    """The `product` of a function of `root` and `other`, half to each: `on_line` and `halved` in less memory.

    Only the two are kept, if they cannot be made again; the function is computed again on the way back. Where that is
    gone `often`, their slopes are kept instead of them.
    """
    both: Tensor = _Gated.apply(root.tensor, other.tensor, root, other, compute, product, often)  # type: ignore[no-untyped-call]
    return both


@dataclass(frozen=True)
class Again:
    """A tensor that is needed on the way back: kept, or made again by a function where there is one."""

    tensor: Tensor
    make: Callable[[], Tensor] | None = None

    def kept(self) -> Tensor | Callable[[], Tensor]:
        return self.tensor.detach() if self.make is None else self.make


def is_large(tensor: Tensor) -> bool:
    """Whether it is better to make the tensor again than to keep it."""
    return tensor.numel() * tensor.element_size() >= LARGE


LARGE = 2**25
"""Bytes from which on a tensor is made again and not kept: those of 2,730 positions of a width of 3,072."""


def scaled(tensor: Tensor, factor: float) -> Tensor:
    """The tensor itself, of whose gradient only a part goes back; of none at all it is a constant."""
    if factor == 0:
        return tensor.detach()
    if factor == 1 or not tensor.requires_grad:
        return tensor
    part: Tensor = _Scale.apply(tensor, factor)  # type: ignore[no-untyped-call]
    return part


def halved(product: Tensor) -> Tensor:
    """A product of two factors, each of which gets half of its gradient."""
    if product.requires_grad:
        watched(product, lambda gradient: gradient * 0.5)
    return product


def watched(tensor: Tensor, seen: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """Call `seen` with the tensor's gradient as it passes by; what it returns, if anything, goes on instead."""

    def passing(gradient: Tensor | None) -> Tensor | None:
        return None if gradient is None else seen(gradient)  # a block that was run again may have none to give

    handle: RemovableHandle = tensor.register_hook(passing)  # type: ignore[no-untyped-call]
    return handle


def normed(
    states: Tensor,
    value_and_scale: Callable[[], tuple[Tensor, Tensor]],
    weight: Tensor | None,
    axes: tuple[int, ...] | None,
) -> Tensor:
    """The norm of `states` with its scale 1/σ a constant. Over `axes` the mean is taken out; None for RMS norms."""
    norm: Tensor = _Norm.apply(states, value_and_scale, weight, axes)  # type: ignore[no-untyped-call]
    return norm


class Straight(torch.autograd.Function):
    """One of our own; any other autograd function in the way belongs to the model."""


def no_view(result: Tensor) -> Tensor:
    """A newly computed tensor as what a `Straight` may return: of a view, autograd refuses to change it in place."""
    tensor: Tensor = torch.ops.aten._unsafe_view(result, result.shape) if result._is_view() else result
    return tensor


# Values are computed inside, so that they are no views, which a model could not change in place.
class _Line(Straight):
    @staticmethod
    def forward(ctx: Any, root: Tensor, compute: Callable[[], Tensor]) -> Tensor:
        value = compute()
        # At 0 there is no slope, and nothing to carry either.
        ctx.save_for_backward(torch.nan_to_num_(value.to(root.dtype) / root, 0.0, 0.0, 0.0))
        return value

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (slope,) = ctx.saved_tensors
        return gradient.to(slope.dtype) * slope, None


class _Gated(Straight):
    @staticmethod
    def forward(
        ctx: Any,
        root: Tensor,
        other: Tensor,
        root_again: Again,
        other_again: Again,
        compute: Callable[[Tensor], Tensor],
        product: Callable[[], Tensor],
        often: bool,
    ) -> Tensor:
        ctx.root, ctx.other, ctx.compute = root_again.kept(), other_again.kept(), compute
        ctx.slopes, ctx.often = None, often and root_again.make is None and other_again.make is None
        ctx.versions = _versions(ctx.root, ctx.other)
        return product()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.slopes is None and _versions(ctx.root, ctx.other) != ctx.versions:
            raise RuntimeError(f"a factor of a product {CHANGED}")
        if not ctx.often:
            return *_handed_back(ctx.root, ctx.other, ctx.compute, gradient), None, None, None, None, None
        to_root, to_other = ctx.slopes or _slopes(ctx.root, ctx.other, ctx.compute)
        ctx.slopes, ctx.root, ctx.other = (to_root, to_other), None, None
        return gradient * to_root, gradient * to_other, None, None, None, None, None


CHANGED = "modified by an inplace operation"
"""What torch says, too, of a tensor that backward needs as it was."""

_Kept: TypeAlias = Tensor | Callable[[], Tensor]


def _versions(*kept: _Kept) -> list[int]:
    return [tensor._version for tensor in kept if isinstance(tensor, Tensor)]


def _slopes(root: _Kept, other: _Kept, compute: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """What a gate and its factor get of a gradient."""
    root, other = (tensor if isinstance(tensor, Tensor) else tensor() for tensor in (root, other))
    half = compute(root) * 0.5
    return torch.nan_to_num_(half / root, 0.0, 0.0, 0.0).mul_(other), half


def _handed_back(
    root: _Kept, other: _Kept, compute: Callable[[Tensor], Tensor], gradient: Tensor
) -> tuple[Tensor, Tensor]:
    """What they get of this gradient, some rows at a time: what is made on the way is small."""
    (root, to_root), (other, to_other) = map(_made, (root, other))
    whole = (gradient, root, other, to_root, to_other)
    for slope, *rows in zip(*(torch.split(one.reshape(-1, one.shape[-1]), _ROWS) for one in whole), strict=True):
        carried, factor, *places = rows
        for place, tensor in zip(places, _slopes(carried, factor, compute), strict=True):
            place.copy_(tensor.mul_(slope))  # maybe over what the slopes were made of
    return to_root, to_other


_ROWS = 1_024
"""Positions at a time, so that what is computed on the way is no further tensor of the whole width."""


def _made(kept: _Kept) -> tuple[Tensor, Tensor]:
    """A tensor of the way back, and where its slope goes: where it was made again, the same memory."""
    tensor = kept if isinstance(kept, Tensor) else kept()
    flag = not isinstance(kept, Tensor) and tensor.is_contiguous()
    return tensor, tensor if flag else torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)


class _Scale(Straight):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.factor, None


class _Norm(Straight):
    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        compute: Callable[[], tuple[Tensor, Tensor]],
        weight: Tensor | None,
        axes: tuple[int, ...] | None,
    ) -> Tensor:
        value, scale = compute()
        ctx.save_for_backward(scale, *(() if weight is None else (weight,)))
        ctx.axes, ctx.dtype = axes, states.dtype
        return value

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        scale, *weight = ctx.saved_tensors
        back = gradient.to(scale.dtype)
        if weight:
            back = back * weight[0]
        if ctx.axes is not None:
            back = back - back.mean(ctx.axes, keepdim=True)
        return (back * scale).to(ctx.dtype), None, None, None


HELD_AT_MOST = 2**27
"""Bytes of the attention of one level that may be written out on the way back: 1,900 positions of 9 heads."""

KEPT_AT_MOST = 2**23
"""Bytes of it that are kept for the next way back: 480 positions of 9 heads."""

LARGE_PRODUCT = 2**15
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
        tensor = _product(rows[first:last], weight)
        if last - first < len(rows):
            part, tensor = tensor, tensor.new_empty(len(rows), weight.shape[1])
            tensor[:first], tensor[first:last], tensor[last:] = 0, part, 0
        return tensor.reshape(*gradient.shape[:-1], weight.shape[1]).to(ctx.dtype), None, None


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
        if turned[0].numel() >= LARGE_PRODUCT and can_use_onednn(turned, slopes):
            back = torch.stack([_product(*pair) for pair in zip(turned, slopes, strict=True)])
        else:
            back = turned @ slopes
        return back.reshape(ctx.shape), None, None, None


def _product(rows: Tensor, weight: Tensor) -> Tensor:
    return onednn_linear(rows, weight.t()) if can_use_onednn(rows, weight) else rows @ weight


def _carrying(rows: Tensor) -> tuple[int, int]:
    """The first row that is not 0, and one behind the last."""
    moving = rows[:, 0].nonzero()
    if len(moving) == 0:
        return 0, len(rows)
    first, last = int(moving[0]), int(moving[-1]) + 1
    beside = (tensor for tensor in (rows[:first], rows[last:]) if len(tensor))
    return (0, len(rows)) if any(bool(tensor.any()) for tensor in beside) else (first, last)  # rows may begin with 0
