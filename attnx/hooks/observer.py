"""The first backend: an observer of torch's own functions. It changes nothing, so nothing has to be put back.

Every call that a model makes to torch passes through `__torch_function__` of the thread's active mode. Three of them
are attention:

- `scaled_dot_product_attention`: the weights are computed beside the kernel and proven on some rows of its output;
- a `softmax` over keys whose result is the left operand of a matrix product with the values. The result is followed
  through dropout, casts, views and slices; that a product with values follows tells attention from an expert router;
- `multi_head_attention_forward`, torch's own module, which can be asked for its weights.

The product with the values is followed further to the first linear map it enters: the output projection.
"""

from __future__ import annotations

import math
import operator
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from itertools import product
from math import prod
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

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
from attnx.hooks.verification import TOLERANCE, computed_claims, mixture_claims

GATING = {"mul", "__mul__"}
"""Names of the functions by which a gate is applied."""


def factor(by: Any, result: Tensor) -> Tensor:
    """What mixed values were multiplied by, as large as they are."""
    return (by if isinstance(by, Tensor) else result.new_tensor(by)).expand_as(result)


def gate(mixed: Tensor, entered: Tensor, factors: Sequence[Tensor], slack: float) -> Tensor | None:
    """batch × head × query × width, so that `gate · mixed` is what entered the projection; None if nothing is.

    `mixed` is batch × head × query × width, `entered` has all heads in its last axis. A factor was seen in the layout
    of its moment, with heads before or behind queries: the one that fits is right.
    """
    batch, heads, queries, width = mixed.shape
    if entered.numel() != mixed.numel() or entered.shape[-1] != heads * width:
        return None
    wanted = entered.detach().reshape(batch, queries, heads, width).transpose(1, 2).to(mixed.dtype)
    for readings in product(*(list(_readings(one, mixed)) for one in factors)):
        tensor = prod(readings, start=mixed.new_ones(1, 1, 1, 1)).expand_as(mixed)
        if torch.allclose(mixed * tensor.detach(), wanted, rtol=0, atol=slack * (1 + float(wanted.abs().amax()))):
            return tensor
    return None


def _readings(factor: Tensor, mixed: Tensor) -> Iterator[Tensor]:
    """The factor as batch × head × query × width, if it came by queries or by heads."""
    batch, heads, queries, width = mixed.shape
    if factor.numel() == mixed.numel():
        factor = factor.to(mixed.dtype)
        yield factor.reshape(batch, queries, heads, width).transpose(1, 2)
        yield factor.reshape(batch, heads, queries, width)


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


_PRODUCTS = {"matmul", "__matmul__", "bmm", "einsum"}
_SUMS = {"add", "__add__", "__radd__", "add_", "__iadd__"}
_FOLLOWED = {
    *("dropout", "to", "type", "type_as", "float", "double", "half", "bfloat16", "clone", "contiguous", "nan_to_num"),
    *("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "transpose", "permute", "swapaxes", "expand"),
    *("__getitem__", "narrow", "masked_fill", "mul", "__mul__", "div", "__truediv__", "pad", "as_strided"),
}
_SEVERAL = "several linear maps read the mixed values, and how they are put together is not known"
_UNCHANGED = {"dropout", "to", "type", "type_as", "float", "double", "half", "bfloat16", "clone", "contiguous"}
_SCALED = dict.fromkeys(("mul", "__mul__"), operator.mul) | dict.fromkeys(("div", "__truediv__"), operator.truediv)


@dataclass(frozen=True)
class _Softmax:
    """The result of a softmax over the last axis, which is attention if it goes on to mix values."""

    visible: Tensor | None


@dataclass(frozen=True)
class _Mixed:
    """Values mixed by attention, on their way to the output projection and on to the sum with the block's input."""

    record: Record
    projected: int | None = None
    """How many numbers the projection made; None before it."""
    factors: tuple[Tensor, ...] = ()
    """What it was multiplied by so far."""


@dataclass(frozen=True)
class _Beside:
    """What entered the output projection, on its way through linear maps beside it: LoRA's two, and its scale."""

    record: Record
    map: Tensor
    """Of them all, output × input."""


_Trace: TypeAlias = _Softmax | _Mixed | _Beside


class Observer(TorchFunctionMode):
    """Fills a `Recorder` while it is active in the current thread."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder
        self._followed: dict[int, tuple[weakref.ref[Tensor], _Trace]] = {}
        self._masks: dict[int, tuple[Tensor, Tensor | None]] = {}
        self._causal: dict[tuple[int, int, torch.device], Tensor] = {}

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "scaled_dot_product_attention":
            return self._fused(func, *args, **kwargs)
        if func is F.multi_head_attention_forward:
            return self._module_attention(func, args, kwargs)
        result = func(*args, **kwargs)
        self._recorder.passed(name, args, kwargs, result)
        operands = (*args, *kwargs.values())
        if name == "softmax":
            self._begin(result, args, kwargs)
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

    def forget(self) -> None:
        """Let go of every tensor that was followed."""
        self._followed.clear()
        self._recorder.descent.forget()

    def _fused(
        self, func: Callable[..., Any], query: Tensor, key: Tensor, value: Tensor, *rest: Any, **kwargs: Any
    ) -> Any:
        names = ("attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
        options = {**dict(zip(names, rest, strict=False)), **kwargs}
        if not self._recorder.held and can_be_computed(query, key):
            found = sdpa_with_logsumexp(query, key, value, **options)
            output, sums = found or (func(query, key, value, *rest, **kwargs), None)
            self._keep(query, key, value, output, options, sums)
            return output
        mask, visible = self._mask(options.get("attn_mask"), bool(options.get("is_causal")), query, key)
        with torch.set_grad_enabled(self._recorder.gradients):  # on a way back the kernel itself is differentiated
            weights = attention_weights(query, key, mask=mask, scale=options.get("scale"))
        if self._recorder.gradients:
            # Gradients of the output must pass through the weights that are recorded.
            values = repeat_kv(value, query.shape[1])
            output = (weights @ values.to(weights.dtype)).to(value.dtype)
        else:
            output = func(query, key, value, *rest, **kwargs)
        record = self._recorder.add(weights, visible, value)
        if not self._recorder.gradients:
            self._recorder.claims += mixture_claims(record, weights, value, output)
        self._wrote(record, (query, key, value), output)
        return output

    def _keep(
        self, query: Tensor, key: Tensor, value: Tensor, output: Tensor, options: dict[str, Any], sums: Tensor | None
    ) -> None:
        mask = batch_mask(options.get("attn_mask"), query, key)
        causal = bool(options.get("is_causal"))
        record = self._recorder.keep(query, key, value, mask, causal=causal, scale=options.get("scale"), sums=sums)
        self._recorder.claims += computed_claims(record, value, output)
        self._wrote(record, (query, key, value), output)

    def _wrote(self, record: Record, read: Sequence[Any], output: Tensor) -> None:
        self._recorder.wrote(record, read, output)
        self._follow(_Mixed(record), output)

    def _mask(
        self, mask: Tensor | None, is_causal: bool, query: Tensor, key: Tensor
    ) -> tuple[Tensor | None, Tensor | None]:
        """The mask of a fused call and what it leaves visible; layers that share one mask share the answer."""
        if mask is None and not is_causal:
            return None, None
        if mask is None:
            shape = (query.shape[-2], key.shape[-2], query.device)
            mask = self._causal.setdefault(shape, causal_mask(*shape))
        if id(mask) not in self._masks:
            seen = visible_from_mask(mask) if mask.dtype == torch.bool else visible_from_scores(mask)
            self._masks[id(mask)] = (mask, seen)
        return self._masks[id(mask)]

    def _module_attention(self, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        wanted = kwargs.get("need_weights", True)
        averaged = kwargs.get("average_attn_weights", True)
        read = (*args, *kwargs.values())[:3]
        if self._recorder.extras or self._recorder.gradients:
            call = opened(func, args, kwargs)
            output, weights, values = call.output, call.weights, call.values
        else:
            output, weights = func(*args, **{**kwargs, "need_weights": True, "average_attn_weights": False})
            weights = weights if weights.ndim == 4 else weights[None]
            values = read[2]
        record = self._recorder.add(weights, visible_from_mask(weights.detach() > 0), values)
        if "projections" in self._recorder.extras:
            record.projection = call.projection if self._recorder.gradients else call.projection.detach()
            record.bias = None if call.bias is None else call.bias.detach()
        if self._recorder.way_back and self._recorder.extras:
            record.outputs = call.mixed
        self._recorder.wrote(record, read, output)
        self._follow(_Mixed(record, output.numel()), output)
        if not wanted:
            return output, None
        return output, weights.mean(1) if averaged else weights

    def _begin(self, result: Tensor, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        axis = kwargs.get("dim", args[1] if len(args) > 1 else -1)
        if result.ndim >= 3 and axis in (-1, result.ndim - 1):
            scores = args[0] if args else kwargs["input"]
            self._follow(_Softmax(visible_from_scores(scores)), result)

    def _product(self, name: str, operands: Sequence[Any], result: Tensor) -> None:
        weights, values = _einsum_operands(operands) if name == "einsum" else operands[:2]
        trace = self._trace(weights)
        if not isinstance(trace, _Softmax):
            return
        visible = trace.visible
        if visible is not None:
            # A sink's column, cut off the weights after the softmax, is not an input.
            visible = visible[..., : weights.shape[-1]]
        self._wrote(self._recorder.add(weights, visible, values), (weights, values), result)

    def _project(self, name: str, operands: Sequence[Any], result: Tensor) -> None:
        mixed, weight = operands[1:3] if name == "addmm" else operands[:2]
        trace = self._trace(mixed)
        if isinstance(trace, _Beside) and name == "linear" and all(operand is None for operand in operands[2:]):
            self._follow(_Beside(trace.record, self._constant(weight) @ trace.map), result)
        if not isinstance(trace, _Mixed) or trace.projected is not None or getattr(weight, "ndim", 0) != 2:
            return
        record = trace.record
        if record.projection is not None:
            record.unlike = record.unlike or _SEVERAL
            if name == "linear" and all(operand is None for operand in operands[2:]):
                self._follow(_Beside(record, self._constant(weight)), result)
            return
        self._follow(_Mixed(record, result.numel()), result)
        if record.folded is not None:
            record.folded.projected = mixed.shape[-1]
        if record.mixed is not None:
            self._enter(record, mixed, trace.factors)
        if "projections" in self._recorder.extras and record.projection is None:
            weight = _dense(weight, mixed) if name == "linear" else weight.T
            record.projection = self._constant(weight)
            bias = operands[0] if name == "addmm" else operands[2] if name == "linear" and len(operands) > 2 else None
            record.bias = None if bias is None else bias.detach()

    def _gated(self, name: str, operands: Sequence[Any], result: Tensor) -> _Mixed | None:
        """Mixed values times something, where it matters what: values and projections are asked for."""
        if name in GATING and self._recorder.extras:
            for one, by in (operands[:2], operands[1::-1]):
                trace = self._trace(one)
                if isinstance(trace, _Mixed) and trace.projected is None:
                    return replace(trace, factors=(*trace.factors, factor(by, result)))
        return None

    def _enter(self, record: Record, entered: Tensor, factors: tuple[Tensor, ...]) -> None:
        """Hold the sum over heads and keys against what enters the projection."""
        assert record.mixed is not None
        tensor = gate(record.mixed, entered, factors, TOLERANCE.get(entered.dtype, 1e-4))
        record.mixed = None
        if tensor is None:
            record.unlike = "something else than a gate changes the mixed values before the output projection"
        elif factors:
            record.gate = tensor if self._recorder.gradients else tensor.detach()

    def _constant(self, weight: Tensor) -> Tensor:
        return weight if self._recorder.gradients else weight.detach()

    def _passed(self, name: str, operands: Sequence[Any]) -> _Trace | None:
        """What is known of an operation's operand, as it is of the result."""
        trace = self._trace(operands[0])
        if not isinstance(trace, _Beside):
            return trace
        if name in _SCALED and len(operands) == 2 and getattr(operands[1], "ndim", 0) == 0:
            return replace(trace, map=_SCALED[name](trace.map, operands[1]))
        return trace if name in _UNCHANGED else None

    def _sum(self, operands: Sequence[Any], result: Tensor) -> None:
        """Where a block's output is added to its input, both are over the positions that the model goes on with."""
        one, other = operands[:2]
        if isinstance(one, Tensor) and isinstance(other, Tensor) and one.shape == other.shape:
            traces = self._trace(one), self._trace(other)
            for trace, beside in (traces, traces[::-1]):
                if isinstance(trace, _Mixed) and isinstance(beside, _Beside) and trace.record is beside.record:
                    self._add(trace, beside, result)
                    return
            for tensor, trace in zip((one, other), traces, strict=True):
                if isinstance(trace, _Mixed) and trace.projected and trace.record.carried is None:
                    trace.record.carried = trace.record.shape[-2] * tensor.numel() // trace.projected

    def _add(self, trace: _Mixed, beside: _Beside, result: Tensor) -> None:
        """The output projection and maps beside it are one map."""
        record = trace.record
        if trace.projected is not None and record.projection is not None:
            record.projection = record.projection + beside.map.to(record.projection.dtype)
            record.unlike = "" if record.unlike == _SEVERAL else record.unlike
            self._follow(trace, result)

    def _follow(self, trace: _Trace | None, tensor: Any) -> None:
        if trace is None or not isinstance(tensor, Tensor):
            return
        key = id(tensor)
        # No Python in the callback: a Ctrl-C that came inside it would be printed and lost.
        self._followed[key] = (weakref.ref(tensor, partial(self._followed.pop, key)), trace)

    def _trace(self, tensor: Any) -> _Trace | None:
        reference, trace = self._followed.get(id(tensor), (None, None))
        return trace if reference is not None and reference() is tensor else None


def _dense(weight: Tensor, mixed: Tensor) -> Tensor:
    """The matrix of a linear map of `mixed`; weights that are wrappers of others, as quantized ones, know few calls."""
    if not hasattr(weight, "__tensor_flatten__"):
        return weight
    return F.linear(torch.eye(mixed.shape[-1], dtype=mixed.dtype, device=mixed.device), weight).T


def _einsum_operands(args: Sequence[Any]) -> tuple[Any, Any]:
    """The two operands of an einsum such as "bhqk,bhkd->bhqd", given as arguments or as one list."""
    operands = args[1] if len(args) == 2 and isinstance(args[1], (list, tuple)) else args[1:]
    return (operands[0], operands[1]) if len(operands) == 2 else (None, None)
