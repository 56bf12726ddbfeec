"""Autograd functions of the linearized model: each computes what the model computes, and replaces its gradient.

Weights get no gradient. Rows of a gradient that are 0 need no product: in a causal model a score reaches no later
position, and above the last attention only its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from attnx.linearize.matmul import can_use_onednn, onednn_linear

Compute: TypeAlias = Callable[[], Tensor]

LARGE = 2**25
"""Bytes from which on a tensor is recomputed instead of kept: those of 2,730 positions of a width of 3,072."""
MATERIALIZED_AT_MOST = 2**27
"""Bytes of a layer's attention that may be materialized for backward: 1,900 positions of 9 heads."""
KEPT_AT_MOST = 2**23
"""Bytes of it that are kept for the next backward: 480 positions of 9 heads."""
LARGE_PRODUCT = 2**15
"""Numbers of a matrix from which on a product by itself is faster than many at once."""
CHANGED = "modified by an inplace operation"
"""What torch says, too, of a tensor that backward needs as it was."""
_ROWS = 1_024
"""Positions for which the gradient of a gated product is computed at once, to save memory."""


class LinearizedFunction(torch.autograd.Function):
    """One of attnx; any other autograd function in the graph belongs to the model."""


def _apply(function: type[LinearizedFunction], *args: Any) -> Tensor:
    result: Tensor = function.apply(*args)  # type: ignore[no-untyped-call]
    return result


def on_gradient(tensor: Tensor, action: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """Call `action` with the tensor's gradient; what it returns, if anything, replaces it."""
    # A block that was run again may have no gradient to give.
    hook = tensor.register_hook(lambda gradient: None if gradient is None else action(gradient))  # type: ignore[no-untyped-call]
    handle: RemovableHandle = hook
    return handle


def halved(product: Tensor) -> Tensor:
    """A product of two factors, each of which gets half of its gradient."""
    if product.requires_grad:
        on_gradient(product, lambda gradient: gradient * 0.5)
    return product


def scaled(tensor: Tensor, factor: float) -> Tensor:
    """The tensor, of whose gradient a share goes back; a constant for 0."""
    if factor == 0:
        return tensor.detach()
    return tensor if factor == 1 or not tensor.requires_grad else _apply(_Scale, tensor, factor)


class _Scale(LinearizedFunction):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.factor, None


def secant(root: Tensor, compute: Compute) -> Tensor:
    """An elementwise function of `root`, with the gradient of the line through 0 and its value: f(z) / z."""
    return _apply(_Secant, root, compute)


class _Secant(LinearizedFunction):
    @staticmethod
    def forward(ctx: Any, root: Tensor, compute: Compute) -> Tensor:
        value = compute()  # computed inside, so that it is no view, which a model could not change in place
        ctx.save_for_backward(torch.nan_to_num_(value.to(root.dtype) / root, 0.0, 0.0, 0.0))  # 0 / 0 carries nothing
        return value

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (slope,) = ctx.saved_tensors
        return gradient.to(slope.dtype) * slope, None


def norm_with_constant_scale(
    states: Tensor,
    value_and_scale: Callable[[], tuple[Tensor, Tensor]],
    weight: Tensor | None,
    axes: tuple[int, ...] | None,
) -> Tensor:
    """The norm of `states` with its scale 1/σ a constant. Over `axes` the mean is subtracted; None for RMS norms."""
    return _apply(_Norm, states, value_and_scale, weight, axes)


class _Norm(LinearizedFunction):
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
        result = gradient.to(scale.dtype)
        if weight:
            result = result * weight[0]
        if ctx.axes is not None:
            result = result - result.mean(ctx.axes, keepdim=True)
        return (result * scale).to(ctx.dtype), None, None, None


@dataclass(frozen=True)
class Recomputable:
    """A tensor that backward needs: kept, or recomputed where there is a function for it."""

    tensor: Tensor
    compute: Compute | None = None

    @property
    def saved(self) -> Tensor | Compute:
        return self.tensor.detach() if self.compute is None else self.compute


_Saved: TypeAlias = Tensor | Compute


def is_large(tensor: Tensor) -> bool:
    return tensor.numel() * tensor.element_size() >= LARGE


def gated_product(
    root: Recomputable,
    other: Recomputable,
    function: Callable[[Tensor], Tensor],
    product: Compute,
    *,
    repeated: bool = False,
) -> Tensor:
    """The product of a function of `root` and `other`, half to each: `secant` and `halved` in less memory.

    The function is computed again in backward. For `repeated` backward passes their slopes are kept instead of them.
    """
    return _apply(_GatedProduct, root.tensor, other.tensor, root, other, function, product, repeated)


class _GatedProduct(LinearizedFunction):
    @staticmethod
    def forward(
        ctx: Any,
        root: Tensor,
        other: Tensor,
        recomputable_root: Recomputable,
        recomputable_other: Recomputable,
        function: Callable[[Tensor], Tensor],
        product: Compute,
        repeated: bool,
    ) -> Tensor:
        ctx.root, ctx.other, ctx.function = recomputable_root.saved, recomputable_other.saved, function
        ctx.slopes = None
        ctx.repeated = repeated and isinstance(ctx.root, Tensor) and isinstance(ctx.other, Tensor)
        ctx.versions = _versions(ctx.root, ctx.other)
        return product()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.slopes is None and _versions(ctx.root, ctx.other) != ctx.versions:
            raise RuntimeError(f"a factor of a product {CHANGED}")
        if not ctx.repeated:
            return *_gate_gradients(ctx.root, ctx.other, ctx.function, gradient), None, None, None, None, None
        ctx.slopes = ctx.slopes or _gate_slopes(ctx.root, ctx.other, ctx.function)
        ctx.root = ctx.other = None
        return gradient * ctx.slopes[0], gradient * ctx.slopes[1], None, None, None, None, None


def _versions(*saved: _Saved) -> list[int]:
    return [tensor._version for tensor in saved if isinstance(tensor, Tensor)]


def _gate_slopes(root: Tensor, other: Tensor, function: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    half = function(root) * 0.5
    return torch.nan_to_num_(half / root, 0.0, 0.0, 0.0).mul_(other), half


def _gate_gradients(
    root: _Saved, other: _Saved, function: Callable[[Tensor], Tensor], gradient: Tensor
) -> tuple[Tensor, Tensor]:
    """Some rows at a time, so that intermediate tensors are small."""
    (root, to_root), (other, to_other) = map(_with_buffer, (root, other))
    tensors = [tensor.reshape(-1, tensor.shape[-1]) for tensor in (gradient, root, other, to_root, to_other)]
    for slope, root_rows, other_rows, *buffers in zip(*(torch.split(x, _ROWS) for x in tensors), strict=True):
        for buffer, rows in zip(buffers, _gate_slopes(root_rows, other_rows, function), strict=True):
            buffer.copy_(rows.mul_(slope))  # maybe over what the slopes were made of
    return to_root, to_other


def _with_buffer(saved: _Saved) -> tuple[Tensor, Tensor]:
    """The tensor, and where its gradient goes: where it was recomputed, the same memory."""
    tensor = saved if isinstance(saved, Tensor) else saved()
    reuse = not isinstance(saved, Tensor) and tensor.is_contiguous()
    return tensor, tensor if reuse else torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)


def is_plain_map(states: Tensor, weight: Tensor) -> bool:
    """Whether a linear map is an ordinary product on the CPU; quantized weights have maps of their own."""
    ordinary = type(weight) is Tensor and weight.layout is torch.strided and weight.ndim == 2
    needs_gradient = states.requires_grad and not weight.requires_grad and torch.is_grad_enabled()
    return ordinary and needs_gradient and states.device.type == "cpu" and weight.dtype.is_floating_point


def linear_map(states: Tensor, weight: Tensor, compute: Compute) -> Tensor:
    """What `compute` gives, a linear map of `states` by a constant `weight`, output × input."""
    return _apply(_LinearMap, states, weight, compute)


class _LinearMap(LinearizedFunction):
    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, compute: Compute) -> Tensor:
        ctx.weight, ctx.dtype = weight, states.dtype
        return _no_view(compute())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        weight = ctx.weight.to(gradient.dtype)  # under autocast maps are of another precision
        rows = gradient.reshape(-1, gradient.shape[-1])
        first, last = _nonzero_rows(rows)
        result = _product(rows[first:last], weight)
        if last - first < len(rows):
            part, result = result, result.new_zeros(len(rows), weight.shape[1])
            result[first:last] = part
        return result.reshape(*gradient.shape[:-1], weight.shape[1]).to(ctx.dtype), None, None


def can_be_materialized(query: Tensor, key: Tensor) -> bool:
    """Whether query × key of these fits into memory."""
    return query.numel() // query.shape[-1] * key.shape[-2] * query.element_size() <= MATERIALIZED_AT_MOST


def mix_values(values: Tensor, attention: Compute, compute: Compute, *, repeated: bool) -> Tensor:
    """What `compute` gives: `values`, batch × head × key × width, mixed by an `attention` that is a constant.

    It is batch × head × query × key, materialized in backward; heads may share their values in groups. For `repeated`
    backward passes a small one is kept.
    """
    return _apply(_MixValues, values, attention, compute, repeated)


class _MixValues(LinearizedFunction):
    @staticmethod
    def forward(ctx: Any, values: Tensor, attention: Compute, compute: Compute, repeated: bool) -> Tensor:
        ctx.attention, ctx.repeated, ctx.shape, ctx.transposed = attention, repeated, values.shape, None
        return _no_view(compute())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        batch, heads, length, width = ctx.shape
        transposed = ctx.transposed
        if transposed is None:  # queries of heads that share their values stand in one row
            weights = ctx.attention().to(gradient.dtype).reshape(batch * heads, -1, length)
            transposed = weights.transpose(1, 2).contiguous()
        if ctx.repeated and transposed.numel() * transposed.element_size() <= KEPT_AT_MOST:
            ctx.transposed = transposed
        slopes = gradient.reshape(batch * heads, -1, width)
        if transposed[0].numel() >= LARGE_PRODUCT and can_use_onednn(transposed, slopes):
            result = torch.stack([_product(*pair) for pair in zip(transposed, slopes, strict=True)])
        else:
            result = transposed @ slopes
        return result.reshape(ctx.shape), None, None, None


def _no_view(result: Tensor) -> Tensor:
    """Of a view that an autograd function returns, autograd refuses changes in place."""
    tensor: Tensor = torch.ops.aten._unsafe_view(result, result.shape) if result._is_view() else result
    return tensor


def _product(rows: Tensor, weight: Tensor) -> Tensor:
    return onednn_linear(rows, weight.t()) if can_use_onednn(rows, weight) else rows @ weight


def _nonzero_rows(rows: Tensor) -> tuple[int, int]:
    """The first row that is not 0, and one after the last."""
    nonzero = rows[:, 0].nonzero()
    if len(nonzero) == 0:
        return 0, len(rows)
    first, last = int(nonzero[0]), int(nonzero[-1]) + 1
    outside = (tensor for tensor in (rows[:first], rows[last:]) if len(tensor))
    return (0, len(rows)) if any(bool(tensor.any()) for tensor in outside) else (first, last)  # rows may begin with 0
