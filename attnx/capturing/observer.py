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

import operator
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from attnx.attention.computed import attention_weights, per_query_head
from attnx.attention.swapped import kernel_with_sums
from attnx.attention.visibility import causal_mask, visible_mask, visible_scores
from attnx.capturing.gates import GATING, factor, gate
from attnx.capturing.module_attention import opened
from attnx.capturing.proof import TOLERANCE, computed_claims, mixture_claims
from attnx.capturing.record import Record, Recorder, batch_mask, can_be_computed

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
            found = kernel_with_sums(query, key, value, **options)
            output, sums = found or (func(query, key, value, *rest, **kwargs), None)
            self._keep(query, key, value, output, options, sums)
            return output
        mask, visible = self._mask(options.get("attn_mask"), bool(options.get("is_causal")), query, key)
        with torch.set_grad_enabled(self._recorder.gradients):  # on a way back the kernel itself is differentiated
            weights = attention_weights(query, key, mask=mask, scale=options.get("scale"))
        if self._recorder.gradients:
            # Gradients of the output must pass through the weights that are recorded.
            values = per_query_head(value, query.shape[1])
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
            seen = visible_mask(mask) if mask.dtype == torch.bool else visible_scores(mask)
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
        record = self._recorder.add(weights, visible_mask(weights.detach() > 0), values)
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
            self._follow(_Softmax(visible_scores(scores)), result)

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
        if isinstance(trace, _Beside) and name == "linear" and all(one is None for one in operands[2:]):
            self._follow(_Beside(trace.record, self._constant(weight) @ trace.map), result)
        if not isinstance(trace, _Mixed) or trace.projected is not None or getattr(weight, "ndim", 0) != 2:
            return
        record = trace.record
        if record.projection is not None:
            record.unlike = record.unlike or _SEVERAL
            if name == "linear" and all(one is None for one in operands[2:]):
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
        found = gate(record.mixed, entered, factors, TOLERANCE.get(entered.dtype, 1e-4))
        record.mixed = None
        if found is None:
            record.unlike = "something else than a gate changes the mixed values before the output projection"
        elif factors:
            record.gate = found if self._recorder.gradients else found.detach()

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
