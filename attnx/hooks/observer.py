"""The first backend: an observer of torch's functions. It changes nothing, so nothing has to be put back.

Three functions are attention:

- `scaled_dot_product_attention`: the weights are computed beside the kernel and checked on some rows of its output;
- a `softmax` over keys whose result is the left operand of a matrix product with the values. The result is followed
  through dropout, casts, views and slices; the product with values tells attention from an expert router;
- `multi_head_attention_forward`, torch's own module, which can be asked for its weights.

The product with the values is followed to the first linear map that it enters: the output projection.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from itertools import product
from math import prod
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from attnx.attention import (
    attention_weights,
    causal_mask,
    repeat_kv,
    sdpa_with_logsumexp,
    visible_from_mask,
    visible_from_scores,
)
from attnx.errors import CaptureError
from attnx.hooks.record import Record, Recorder, batch_mask, can_be_computed
from attnx.hooks.tracing import Function, TensorMap, TracingMode
from attnx.hooks.verification import TOLERANCE, check_computed, check_rows

_GATING = {"mul", "__mul__"}
_PRODUCTS = {"matmul", "__matmul__", "bmm", "einsum"}
_SUMS = {"add", "__add__", "__radd__", "add_", "__iadd__"}
_UNCHANGED = {"dropout", "to", "type", "type_as", "float", "double", "half", "bfloat16", "clone", "contiguous"}
_FOLLOWED = _UNCHANGED | {
    *("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "transpose", "permute", "swapaxes", "expand"),
    *("__getitem__", "narrow", "masked_fill", "mul", "__mul__", "div", "__truediv__", "pad", "as_strided"),
    "nan_to_num",
}
_SCALED = dict.fromkeys(("mul", "__mul__"), operator.mul) | dict.fromkeys(("div", "__truediv__"), operator.truediv)
_SEVERAL = "several linear maps read the mixed values, and how they are put together is not known"


@dataclass(frozen=True)
class _Softmax:
    """The result of a softmax over the last axis, which is attention if it goes on to mix values."""

    visible: Tensor | None


@dataclass(frozen=True)
class _Mixed:
    """Values mixed by attention, before or after the output projection."""

    record: Record
    projected: int | None = None
    """How many numbers the projection made; None before it."""
    factors: tuple[Tensor, ...] = ()
    """What it was multiplied by so far."""


@dataclass(frozen=True)
class _Adapter:
    """What entered the output projection, inside linear maps beside it: LoRA's two, and its scale."""

    record: Record
    map: Tensor
    """Of them all, output × input."""


_Trace: TypeAlias = _Softmax | _Mixed | _Adapter


class Observer(TracingMode):
    """Fills a `Recorder` while it is active in the current thread."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder
        self._traces: TensorMap[_Trace] = TensorMap()
        self._masks: dict[int, tuple[Tensor, Tensor | None]] = {}
        self._causal: dict[tuple[int, int, torch.device], Tensor] = {}

    def call(self, func: Function, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if name == "scaled_dot_product_attention":
            return self._fused(func, *args, **kwargs)
        if func is F.multi_head_attention_forward:
            return self._module_attention(func, args, kwargs)
        result = func(*args, **kwargs)
        self._recorder.observe(name, args, kwargs, result)
        operands = (*args, *kwargs.values())
        if name == "softmax":
            axis = kwargs.get("dim", args[1] if len(args) > 1 else -1)
            if result.ndim >= 3 and axis in (-1, result.ndim - 1):
                self._follow(_Softmax(visible_from_scores(args[0] if args else kwargs["input"])), result)
        elif name in _PRODUCTS:
            self._product(name, operands, result)
            self._project(name, operands, result)
        elif name in _FOLLOWED:
            self._follow(self._gated(name, operands, result) or self._passed(name, operands), result)
        elif name in ("linear", "addmm"):
            self._project(name, operands, result)
        elif name in _SUMS:
            self._sum(operands, result)
        return result

    def clear(self) -> None:
        """Release every tensor that was followed."""
        self._traces.clear()
        self._recorder.flow.clear()

    def _fused(self, func: Function, query: Tensor, key: Tensor, value: Tensor, *positional: Any, **kwargs: Any) -> Any:
        names = ("attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
        options = {**dict(zip(names, positional, strict=False)), **kwargs}
        causal, scale, recorder = bool(options.get("is_causal")), options.get("scale"), self._recorder
        if not recorder.held and can_be_computed(query, key):
            computed = sdpa_with_logsumexp(query, key, value, **options)
            output, sums = computed or (func(query, key, value, *positional, **kwargs), None)
            mask = batch_mask(options.get("attn_mask"), query, key)
            record = recorder.keep(query, key, value, mask, causal=causal, scale=scale, sums=sums)
            recorder.checks += check_computed(record.computed, value, output, record.module)
            self._mixed(record, (query, key, value), output)
            return output
        mask, visible = self._mask(options.get("attn_mask"), causal, query, key)
        with torch.set_grad_enabled(recorder.gradients):  # with `to_input` the kernel itself is differentiated
            weights = attention_weights(query, key, mask=mask, scale=scale)
        if recorder.gradients:
            # Gradients of the output must pass through the weights that are recorded.
            values = repeat_kv(value, query.shape[1])
            output = (weights @ values.to(weights.dtype)).to(value.dtype)
        else:
            output = func(query, key, value, *positional, **kwargs)
        record = recorder.add(weights, visible, value)
        if not recorder.gradients:
            recorder.checks += check_rows(weights, value, output, record.module)
        self._mixed(record, (query, key, value), output)
        return output

    def _mask(
        self, mask: Tensor | None, is_causal: bool, query: Tensor, key: Tensor
    ) -> tuple[Tensor | None, Tensor | None]:
        """The mask of a fused call and what it leaves visible, computed once for layers that share a mask."""
        if mask is None and not is_causal:
            return None, None
        if mask is None:
            shape = (query.shape[-2], key.shape[-2], query.device)
            mask = self._causal.setdefault(shape, causal_mask(*shape))
        if id(mask) not in self._masks:
            visible = visible_from_mask(mask) if mask.dtype == torch.bool else visible_from_scores(mask)
            self._masks[id(mask)] = (mask, visible)
        return self._masks[id(mask)]

    def _module_attention(self, func: Function, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        operands = (*args, *kwargs.values())[:3]
        recorder, opened = self._recorder, None
        if recorder.extras or recorder.gradients:
            opened = ModuleAttention.of(func, args, kwargs)
            output, weights, values = opened.output, opened.weights, opened.values
        else:
            output, weights = func(*args, **{**kwargs, "need_weights": True, "average_attn_weights": False})
            weights, values = weights if weights.ndim == 4 else weights[None], operands[2]
        record = recorder.add(weights, visible_from_mask(weights.detach() > 0), values)
        if opened is not None and "projections" in recorder.extras:
            record.projection = self._constant(opened.projection)
            record.bias = None if opened.bias is None else opened.bias.detach()
        if opened is not None and recorder.to_input and recorder.extras:
            record.outputs = opened.mixed
        self._mixed(record, operands, output, projected=output.numel())
        if not kwargs.get("need_weights", True):
            return output, None
        return output, weights.mean(1) if kwargs.get("average_attn_weights", True) else weights

    def _mixed(self, record: Record, operands: Sequence[Any], output: Tensor, *, projected: int | None = None) -> None:
        self._recorder.set_output(record, operands, output)
        self._follow(_Mixed(record, projected), output)

    def _product(self, name: str, operands: Sequence[Any], result: Tensor) -> None:
        weights, values = _einsum_operands(operands) if name == "einsum" else operands[:2]
        trace = self._traces.get(weights)
        if isinstance(trace, _Softmax):
            # A sink's column, cut off the weights after the softmax, is not an input.
            visible = None if trace.visible is None else trace.visible[..., : weights.shape[-1]]
            self._mixed(self._recorder.add(weights, visible, values), (weights, values), result)

    def _project(self, name: str, operands: Sequence[Any], result: Tensor) -> None:
        mixed, weight = operands[1:3] if name == "addmm" else operands[:2]
        trace = self._traces.get(mixed)
        plain = name == "linear" and all(operand is None for operand in operands[2:])
        if isinstance(trace, _Adapter) and plain:
            self._follow(_Adapter(trace.record, self._constant(weight) @ trace.map), result)
        if not isinstance(trace, _Mixed) or trace.projected is not None or getattr(weight, "ndim", 0) != 2:
            return
        record = trace.record
        if record.projection is not None:
            record.mismatch = record.mismatch or _SEVERAL
            if plain:
                self._follow(_Adapter(record, self._constant(weight)), result)
            return
        self._follow(_Mixed(record, result.numel()), result)
        if record.folded is not None:
            record.folded.projected = mixed.shape[-1]
        if record.mixed is not None:
            self._check_mixed(record, mixed, trace.factors)
        if "projections" in self._recorder.extras:
            record.projection = self._constant(_dense(weight, mixed) if name == "linear" else weight.T)
            bias = operands[0] if name == "addmm" else operands[2] if name == "linear" and len(operands) > 2 else None
            record.bias = None if bias is None else bias.detach()

    def _gated(self, name: str, operands: Sequence[Any], result: Tensor) -> _Mixed | None:
        """Mixed values times a factor, followed where values and projections are requested."""
        if name in _GATING and self._recorder.extras:
            for mixed, factor in (operands[:2], operands[1::-1]):
                trace = self._traces.get(mixed)
                if isinstance(trace, _Mixed) and trace.projected is None:
                    factor = factor if isinstance(factor, Tensor) else result.new_tensor(factor)
                    return replace(trace, factors=(*trace.factors, factor.expand_as(result)))
        return None

    def _check_mixed(self, record: Record, projected: Tensor, factors: tuple[Tensor, ...]) -> None:
        """Compare the sum over heads and keys with what enters the projection."""
        assert record.mixed is not None
        gate = _gate(record.mixed, projected, factors, TOLERANCE.get(projected.dtype, 1e-4))
        record.mixed = None
        if gate is None:
            record.mismatch = "something else than a gate changes the mixed values before the output projection"
        elif factors:
            record.gate = self._constant(gate)

    def _constant(self, weight: Tensor) -> Tensor:
        return weight if self._recorder.gradients else weight.detach()

    def _passed(self, name: str, operands: Sequence[Any]) -> _Trace | None:
        """The operand's trace, which is the result's as well."""
        trace = self._traces.get(operands[0])
        if not isinstance(trace, _Adapter):
            return trace
        if name in _SCALED and len(operands) == 2 and getattr(operands[1], "ndim", 0) == 0:
            return replace(trace, map=_SCALED[name](trace.map, operands[1]))
        return trace if name in _UNCHANGED else None

    def _sum(self, operands: Sequence[Any], result: Tensor) -> None:
        """An adapter joins its projection; a block's output, added to its input, shows which positions go on."""
        first, second = operands[:2]
        if not isinstance(first, Tensor) or not isinstance(second, Tensor) or first.shape != second.shape:
            return
        traces = self._traces.get(first), self._traces.get(second)
        for trace, beside in (traces, traces[::-1]):
            if isinstance(trace, _Mixed) and isinstance(beside, _Adapter) and trace.record is beside.record:
                record = trace.record
                if trace.projected is not None and record.projection is not None:
                    record.projection = record.projection + beside.map.to(record.projection.dtype)
                    record.mismatch = "" if record.mismatch == _SEVERAL else record.mismatch
                    self._follow(trace, result)
                return
        for trace in traces:
            if isinstance(trace, _Mixed) and trace.projected and trace.record.positions_kept is None:
                trace.record.positions_kept = trace.record.shape[-2] * first.numel() // trace.projected

    def _follow(self, trace: _Trace | None, tensor: Any) -> None:
        if trace is not None and isinstance(tensor, Tensor):
            self._traces[tensor] = trace


def _gate(mixed: Tensor, projected: Tensor, factors: Sequence[Tensor], tolerance: float) -> Tensor | None:
    """batch × head × query × width, so that `gate · mixed` is what entered the projection; None if nothing is.

    A factor was seen in the layout of its moment, with heads before or after queries: the one that fits is right.
    """
    batch, heads, queries, width = mixed.shape
    if projected.numel() != mixed.numel() or projected.shape[-1] != heads * width:
        return None
    expected = projected.detach().reshape(batch, queries, heads, width).transpose(1, 2).to(mixed.dtype)
    for layouts in product(*(list(_layouts(factor, mixed)) for factor in factors)):
        gate = prod(layouts, start=mixed.new_ones(1, 1, 1, 1)).expand_as(mixed)
        slack = tolerance * (1 + float(expected.abs().amax()))
        if torch.allclose(mixed * gate.detach(), expected, rtol=0, atol=slack):
            return gate
    return None


def _layouts(factor: Tensor, mixed: Tensor) -> Iterator[Tensor]:
    """The factor as batch × head × query × width, if it came by queries or by heads."""
    batch, heads, queries, width = mixed.shape
    if factor.numel() == mixed.numel():
        factor = factor.to(mixed.dtype)
        yield factor.reshape(batch, queries, heads, width).transpose(1, 2)
        yield factor.reshape(batch, heads, queries, width)


@dataclass(frozen=True, eq=False)
class ModuleAttention:
    """One call of `multi_head_attention_forward` in its parts."""

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

    @classmethod
    def of(cls, func: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> ModuleAttention:
        """The function itself has to give the same output."""
        bound = signature(func).bind(*args, **kwargs)
        bound.apply_defaults()
        call = bound.arguments
        if call["bias_k"] is not None or call["add_zero_attn"] or call["static_k"] is not None:
            raise CaptureError(
                "nn.MultiheadAttention has keys that are no positions here (add_bias_kv, add_zero_attn or static "
                "keys), so its values cannot be told by position"
            )
        heads, batched, joint = call["num_heads"], call["query"].ndim == 3, call["in_proj_bias"]
        separate = call["use_separate_proj_weight"]
        inputs = call["query"], call["key"], call["value"]
        weights = [call[f"{x}_proj_weight"] for x in "qkv"] if separate else call["in_proj_weight"].chunk(3)
        biases = [None] * 3 if joint is None else joint.chunk(3)
        query, key, value = (
            _by_head(F.linear(states if batched else states[:, None], weight, bias), heads)
            for states, weight, bias in zip(inputs, weights, biases, strict=True)
        )
        attention = attention_weights(query, key, mask=_additive_mask(call, query, key))
        mixed = (attention @ value.to(attention.dtype)).to(value.dtype)
        output = F.linear(mixed.permute(2, 0, 1, 3).flatten(2), call["out_proj_weight"], call["out_proj_bias"])
        output = output if batched else output[:, 0]
        plain = func(*args, **kwargs)[0].detach()
        slack = (1e-4 if plain.dtype in (torch.float32, torch.float64) else 2e-2) * (1 + float(plain.abs().amax()))
        if not torch.allclose(output.detach(), plain, rtol=0, atol=slack, equal_nan=True):
            raise CaptureError("nn.MultiheadAttention, computed openly, gives another output; please report the model")
        return cls(attention, value, mixed, call["out_proj_weight"], call["out_proj_bias"], output)


def _by_head(states: Tensor, heads: int) -> Tensor:
    """position × batch × width → batch × head × position × width of a head."""
    return states.view(*states.shape[:-1], heads, -1).permute(1, 2, 0, 3)


def _additive_mask(call: Mapping[str, Any], query: Tensor, key: Tensor) -> Tensor | None:
    """The sum of the function's two masks, in which true forbids."""

    def additive(mask: Tensor) -> Tensor:
        if mask.dtype != torch.bool:
            return mask.to(query.dtype)
        return torch.zeros_like(mask, dtype=query.dtype).masked_fill(mask, -math.inf)

    batch, heads, queries, _ = query.shape
    mask, padding = call["attn_mask"], call["key_padding_mask"]
    total: Tensor | None = None
    if mask is not None:
        total = additive(mask).reshape(*((batch, heads) if mask.ndim == 3 else (1, 1)), queries, key.shape[2])
    if padding is not None:
        hidden = additive(padding).reshape(batch, 1, 1, key.shape[2])
        total = hidden if total is None else total + hidden
    return total


def _dense(weight: Tensor, mixed: Tensor) -> Tensor:
    """The matrix of a linear map of `mixed`; quantized weights are wrappers that support few calls."""
    if not hasattr(weight, "__tensor_flatten__"):
        return weight
    return F.linear(torch.eye(mixed.shape[-1], dtype=mixed.dtype, device=mixed.device), weight).T


def _einsum_operands(args: Sequence[Any]) -> tuple[Any, Any]:
    """The two operands of an einsum such as "bhqk,bhkd->bhqd", given as arguments or as one list."""
    operands = args[1] if len(args) == 2 and isinstance(args[1], (list, tuple)) else args[1:]
    return (operands[0], operands[1]) if len(operands) == 2 else (None, None)
