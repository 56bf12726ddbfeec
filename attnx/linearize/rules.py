"""What the frozen model does with each of torch's functions, by name; the table at the end is all there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.attention import attention_weights, causal_mask
from attnx.hooks import Entry, take_table
from attnx.linearize.autograd import (
    can_be_mapped,
    can_be_written_out,
    gated,
    halved,
    mapped,
    normed,
    on_line,
    scaled,
)
from attnx.linearize.autograd import (
    mixed as mixed_values,
)
from attnx.linearize.matmul import can_use_onednn, onednn_linear
from attnx.linearize.mode import Function, LinearizeMode, Path, Rule

_FUSED = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
_MODULE = (
    *("query", "key", "value", "embed_dim_to_check", "num_heads", "in_proj_weight", "in_proj_bias"),
    *("bias_k", "bias_v", "add_zero_attn", "dropout_p", "out_proj_weight", "out_proj_bias"),
)


def fused(mode: LinearizeMode, func: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`scaled_dot_product_attention` stays fused: a mask with a gradient, or one head for all, makes it hold n × n."""
    given = {**dict(zip(_FUSED, args, strict=False)), **kwargs}
    query, key, values = given["query"], given["key"], given["value"]
    if isinstance(given.get("attn_mask"), Tensor):
        given["attn_mask"] = given["attn_mask"].detach()
    if not given.get("enable_gqa") and query.ndim == 4:
        key, values = (one.expand(-1, query.shape[1], -1, -1) if one.shape[1] == 1 else one for one in (key, values))
    given |= {"query": scaled(query, mode.path.queries), "key": scaled(key, mode.path.queries)}
    if mode.path.queries == 0 and _can_be_mixed(given, values):
        plain = {**given, "value": values.detach()}
        carrying = scaled(values, mode.path.values)
        outputs = mixed_values(carrying, lambda: _weights(plain), lambda: func(**plain), often=mode.often)
        return mode.kernel(values, outputs)
    return mode.kernel(values, func(**{**given, "value": scaled(values, mode.path.values)}))


def _can_be_mixed(given: Mapping[str, Any], values: Tensor) -> bool:
    query, key = given["query"], given["key"]
    moving = values.requires_grad and torch.is_grad_enabled() and query.device.type == "cpu"
    return moving and query.ndim == values.ndim == 4 and not given.get("dropout_p") and can_be_written_out(query, key)


def _weights(given: Mapping[str, Any]) -> Tensor:
    """The attention of a fused call, batch × head × query × key."""
    query, key, mask = given["query"], given["key"], given.get("attn_mask")
    if given.get("is_causal"):
        mask = causal_mask(query.shape[-2], key.shape[-2], query.device)
    return attention_weights(query, key, mask=mask, scale=given.get("scale"))


def softmax(mode: LinearizeMode, func: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Attention that is written out begins with a softmax over keys; so does a router, which is a choice as well."""
    if mode.path.scores == 0:
        args = [argument.detach() if isinstance(argument, Tensor) else argument for argument in args]
        kwargs = {
            name: keyword.detach() if isinstance(keyword, Tensor) else keyword for name, keyword in kwargs.items()
        }
    result = func(*args, **kwargs)
    axis = kwargs.get("dim", args[1] if len(args) > 1 else -1)
    return mode.as_softmax(result) if result.ndim >= 3 and axis in (-1, result.ndim - 1) else result


def mixed(
    mode: LinearizeMode, func: Function, args: list[Any], kwargs: dict[str, Any], operands: tuple[Any, Any]
) -> Any:
    """The result of a softmax times values."""
    weights, values = operands if mode.is_softmax(operands[0]) else operands[::-1]
    shares = {id(weights): scaled(weights, mode.path.scores), id(values): scaled(values, mode.path.values)}
    return mode.kernel(values, func(*_swapped(args, shares), **kwargs))


def weighed(mode: LinearizeMode, func: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result of a softmax times a mask, or what a router chose times its weight."""
    result = func(*args, **kwargs)
    both = all(isinstance(argument, Tensor) and argument.requires_grad for argument in args)
    return mode.as_function(halved(result) if both else result, *args)


def followed(mode: LinearizeMode, func: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Another shape, or a part: attention is still attention, but a function of a tensor is so place by place."""
    result = mode.untold(func, args, kwargs)
    return mode.as_softmax(result) if args and mode.is_softmax(args[0]) else result


def module_attention(mode: LinearizeMode, func: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """torch's own attention module: the weights that it tells, times values that are projected beside it."""
    given = {**dict(zip(_MODULE, args, strict=False)), **kwargs}
    if given["bias_k"] is not None or given["add_zero_attn"]:
        return mode.untold(func, args, kwargs)
    scores = {name: scaled(given[name], mode.path.queries) for name in ("query", "key")}
    told = {"need_weights": True, "average_attn_weights": False}
    plain, weights = func(**{**given, **scores, "value": given["value"].detach(), **told})
    weights = weights if weights.ndim == 4 else weights[None]
    first = 2 * given["embed_dim_to_check"]
    joined, bias = given["in_proj_weight"], given["in_proj_bias"]
    # WavLM gives projections one by one, and an empty tensor for all in one.
    apart = joined is None or given.get("use_separate_proj_weight", False)
    projection = given["v_proj_weight"] if apart else joined[first:]
    projected = _projected(mode, given["value"], projection, None if bias is None else bias[first:])
    batched = projected if projected.ndim == 3 else projected[:, None]
    values = batched.reshape(*batched.shape[:2], given["num_heads"], -1).permute(1, 2, 0, 3)
    outputs = mode.kernel(values, weights @ scaled(values, mode.path.values)).permute(2, 0, 1, 3).flatten(2)
    outputs = outputs if plain.ndim == 3 else outputs[:, 0]
    result = _projected(mode, outputs, given["out_proj_weight"], given["out_proj_bias"])
    if not kwargs.get("need_weights", True):
        return result, None
    return result, weights.mean(1) if kwargs.get("average_attn_weights", True) else weights


def embedding(mode: LinearizeMode, func: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The input enters the model as rows of its embedding, and of any other table in which its ids are looked up.

    Gemma 3n has a second table, LoRA a second factor. GPT-2 takes kinds of tokens from the first, by other ids.
    """
    rows = func(*args, **kwargs)
    given = {**dict(zip(("input", "weight"), args, strict=False)), **kwargs}
    ids = mode.ids(given["input"])
    if mode.embeddings and take_table(mode.embeddings, given["weight"]):
        return mode.enter(rows, ids)
    sequence = mode.stream_of(ids)
    return rows if sequence is None or not rows.is_floating_point() else mode.enter(rows, ids, sequence)


def _projected(mode: LinearizeMode, states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    result = F.linear(states, weight)
    return result if bias is None else mode.with_constant(result + bias, bias)


def _swapped(args: Sequence[Any], by: Mapping[int, Tensor]) -> list[Any]:
    return [
        _swapped(argument, by) if isinstance(argument, (list, tuple)) else by.get(id(argument), argument)
        for argument in args
    ]


ENDS: dict[str, Rule] = {
    "embedding": embedding,
    "scaled_dot_product_attention": fused,
    "multi_head_attention_forward": module_attention,
    "softmax": softmax,
}
"""Where the input comes in and values are mixed: all that a run without frozen gradients has to see."""


def linearize_mode(
    model: nn.Module, path: Path, entry: Entry, *, made: type[LinearizeMode] = LinearizeMode, **how: Any
) -> LinearizeMode:
    """The mode for a model whose input comes out of the module `entry`, or is that leaf; of several, out of each."""
    names = {id(module): name for name, module in model.named_modules()}
    entries = entry if isinstance(entry, tuple) else (entry,)
    leaves = [tensor for tensor in entries if isinstance(tensor, Tensor)]
    embeddings = [module for module in entries if isinstance(module, nn.Module)]
    rules = RULES if path.frozen else _PLAIN
    return made(path, rules, names=names, leaves=leaves, embeddings=embeddings, **how)


def _pointwise(mode: LinearizeMode, func: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
    tensors = [argument for argument in args if isinstance(argument, Tensor)]
    if (
        len(tensors) != 1
        or mode.root(tensors[0]) is None
        or any(isinstance(keyword, Tensor) for keyword in kwargs.values())
    ):
        return mode.untold(func, args, kwargs)
    tensor = tensors[0]
    if kwargs.get("inplace") or any(argument is True for argument in args):  # by name or by place
        plain = [False if argument is True else argument for argument in args]
        named = {**kwargs, "inplace": False} if "inplace" in kwargs else kwargs
        return mode.overwrite(tensor, _pointwise(mode, func, plain, named))
    plain = [argument.detach() if argument is tensor else argument for argument in args]
    if tensor.requires_grad and torch.is_grad_enabled() and mode.through_zero(func, plain, kwargs):
        line = on_line(tensor, lambda: func(*plain, **kwargs))
        place = next(number for number, argument in enumerate(args) if argument is tensor)
        options = [None if argument is tensor else argument for argument in args]

        def compute(other: Tensor) -> Tensor:
            result: Tensor = func(*options[:place], other, *options[place + 1 :], **kwargs)
            return result

        return mode.called(line, tensor, compute) if mode.root(tensor) is tensor else mode.as_function(line, tensor)
    return mode.as_function(func(*plain, **kwargs), tensor)


def _product(mode: LinearizeMode, func: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
    elementwise = func.__name__ in _ELEMENTWISE
    first, second = _operands(func, args)
    if not elementwise and _mixes(mode, (first, second)):
        return mixed(mode, func, args, kwargs, (first, second))
    if mode.is_softmax(first) or mode.is_softmax(second):
        return weighed(mode, func, args, kwargs)
    root, other = mode.root(first), mode.root(second)
    if root is None or other is None:
        result = mode.untold(func, args, kwargs)
        return mode.as_function(result, first, second) if elementwise else result
    if elementwise and root is other and first.shape == second.shape == root.shape:
        plain = first.detach(), second.detach()
        line = on_line(root, lambda: func(*plain)) if torch.is_grad_enabled() else func(*plain)
        return mode.as_function(line, first)
    if not (first.requires_grad and second.requires_grad and torch.is_grad_enabled()):
        return func(*args, **kwargs)
    call, factor = mode.call_of(first), second
    if call is None:
        call, factor = mode.call_of(second), first
    if elementwise and call is not None and call[0].shape == factor.shape and call[0].dtype == factor.dtype:
        plain = first.detach(), second.detach()
        return gated(mode.again(call[0]), mode.again(factor), call[1], lambda: func(*plain), often=mode.often)
    return halved(func(*args, **kwargs))


def _operands(func: Function, args: list[Any]) -> tuple[Any, Any]:
    if func.__name__ == "einsum":
        args = list(args[1]) if len(args) == 2 and isinstance(args[1], (list, tuple)) else args[1:]
    return (args[0], args[1]) if len(args) == 2 else (None, None)


def _mixing_only(mode: LinearizeMode, func: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A product of a run without frozen gradients: seen where values are mixed."""
    operands = _operands(func, args)
    return mixed(mode, func, args, kwargs, operands) if _mixes(mode, operands) else func(*args, **kwargs)


def _mixes(mode: LinearizeMode, operands: tuple[Any, Any]) -> bool:
    large = all(isinstance(operand, Tensor) and operand.ndim >= 3 for operand in operands)
    return large and any(map(mode.is_softmax, operands))


def _summed_product(mode: LinearizeMode, func: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`addmm` and its like: a summand and a product."""
    names = ("input", *_FACTORS[func.__name__])
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    summand, first, second = (given.pop(name) for name in names)
    if first.requires_grad and second.requires_grad:
        first, second = scaled(first, 0.5), scaled(second, 0.5)
    if not given and not summand.requires_grad and can_be_mapped(first, second):
        plain = first.detach()
        result = mapped(first, second.t(), lambda: func(summand, plain, second))
    else:
        result = func(summand, first, second, **given)
    return result if summand.requires_grad else mode.with_constant(result, summand * given.get("beta", 1))


def _division(mode: LinearizeMode, func: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
    below = 0 if func.__name__ in _TURNED else 1
    args[below] = args[below].detach() if isinstance(args[below], Tensor) else args[below]
    return mode.as_function(func(*args, **kwargs), args[1 - below])


def _constant(mode: LinearizeMode, func: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A spread, beside which something is measured."""
    return func(*(argument.detach() if isinstance(argument, Tensor) else argument for argument in args), **kwargs)


def _sum(mode: LinearizeMode, func: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
    moving = [mode.root(argument) is not None for argument in args]
    result = func(*args, **kwargs)
    if len(args) == 2 and isinstance(result, Tensor) and result.requires_grad and not all(moving):
        constant = args[moving.index(False)]
        taken_away = func.__name__ in _DIFFERENCES and not moving[1]
        factor = (-1 if taken_away else 1) * kwargs.get("alpha", 1)
        mode.with_constant(result, constant if factor == 1 else constant * factor)
    return mode.as_function(result, *args)


def _in_place(mode: LinearizeMode, func: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`x *= y` and its like: what `x * y` gives, which `x` then holds."""
    name, (changed, *others) = _IN_PLACE[func.__name__], args
    moving = [isinstance(argument, Tensor) and mode.root(argument) is not None for argument in args]
    if not any(moving):
        return mode.untold(func, args, kwargs)
    needed = not moving[0] or (any(moving[1:]) and name not in ("add", "sub"))  # for backward, as it was before
    operand = mode.as_function(changed.clone(), changed) if needed else changed
    return mode.overwrite(changed, RULES[name](mode, getattr(torch, name), [operand, *others], kwargs))


def _biased(mode: LinearizeMode, func: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A linear map or a convolution, whose bias goes with its channels."""
    bias = kwargs.get("bias", args[2] if len(args) > 2 else None)
    result = _linear(mode, func, args, kwargs) if func.__name__ == "linear" else func(*args, **kwargs)
    if bias is None:
        return result
    behind = 0 if func.__name__ == "linear" else result.ndim - 2
    return mode.with_constant(result, bias.reshape(-1, *[1] * behind))


def _linear(mode: LinearizeMode, func: Function, args: list[Any], kwargs: dict[str, Any]) -> Tensor:
    plain = [argument.detach() if isinstance(argument, Tensor) else argument for argument in args]
    quick = 2 <= len(args) <= 3 and not kwargs and can_use_onednn(*plain)

    def compute() -> Tensor:
        made: Tensor = onednn_linear(plain[0], plain[1], *plain[2:]) if quick else func(*plain, **kwargs)
        return made

    constants = all(
        not argument.requires_grad for argument in (*args[1:], *kwargs.values()) if isinstance(argument, Tensor)
    )
    if len(args) > 1 and constants and can_be_mapped(args[0], args[1]):
        return mode.linear(mapped(args[0], args[1], compute), compute)
    return mode.linear(func(*args, **kwargs), compute)


def _joined(mode: LinearizeMode, func: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Tensors put together, some of which are constants: CLS before patches, a number where a mask is."""
    result = func(*args, **kwargs)
    if mode.path.conserves and isinstance(result, Tensor) and result.requires_grad:  # `where` of one gives places
        with torch.no_grad():
            constant = func(*map(_zeroed, args), **{name: _zeroed(keyword) for name, keyword in kwargs.items()})
        if bool((constant != 0).any()):
            mode.with_constant(result, constant)
    return result


def _zeroed(tensor: Any) -> Any:
    if isinstance(tensor, (list, tuple)):
        return type(tensor)(_zeroed(each) for each in tensor)
    return torch.zeros_like(tensor) if isinstance(tensor, Tensor) and tensor.requires_grad else tensor


def _same(mode: LinearizeMode, func: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Another form of the same numbers."""
    return mode.as_function(mode.untold(func, args, kwargs), args[0] if args else kwargs.get("input"))


def _gated(mode: LinearizeMode, func: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`glu`: the gate is a sigmoid, so a constant."""
    carried, gate = args[0].chunk(2, kwargs.get("dim", args[1] if len(args) > 1 else -1))
    return carried * gate.detach().sigmoid()


def _layer_norm(mode: LinearizeMode, func: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
    names = ("input", "normalized_shape", "weight", "bias", "eps")
    given = {"weight": None, "bias": None, "eps": 1e-5, **dict(zip(names, args, strict=False)), **kwargs}
    states, weight, bias, shape = given["input"], given["weight"], given["bias"], list(given["normalized_shape"])
    if not states.requires_grad:
        return func(*args, **kwargs)

    def value_and_scale() -> tuple[Tensor, Tensor]:
        value, _, scale = torch.native_layer_norm(states.detach(), shape, weight, bias, given["eps"])
        return value, scale

    result = normed(states, value_and_scale, weight, tuple(range(-len(shape), 0)))
    return result if bias is None else mode.with_constant(result, bias)


def _rms_norm(mode: LinearizeMode, func: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
    names = ("input", "normalized_shape", "weight", "eps")
    given = {"weight": None, "eps": None, **dict(zip(names, args, strict=False)), **kwargs}
    states, weight = given["input"], given["weight"]
    if not states.requires_grad:
        return func(*args, **kwargs)
    axes = tuple(range(-len(given["normalized_shape"]), 0))
    eps = torch.finfo(states.dtype).eps if given["eps"] is None else given["eps"]

    def value_and_scale() -> tuple[Tensor, Tensor]:
        wide = states.detach().to(torch.promote_types(states.dtype, torch.float32))
        scale = torch.rsqrt(wide.square().mean(axes, keepdim=True) + eps)
        return func(**{**given, "input": states.detach()}), scale

    return normed(states, value_and_scale, weight, None)


_FACTORS = {"addmm": ("mat1", "mat2"), "baddbmm": ("batch1", "batch2")}
_ELEMENTWISE = ("mul", "__mul__", "__rmul__", "multiply")
_TURNED = ("__rdiv__", "__rtruediv__")
_DIFFERENCES = ("sub", "__sub__", "subtract")
_POINTWISE = (
    *("relu", "tanh", "selu", "celu", "sigmoid", "exp", "expm1", "log", "log1p", "erf", "sqrt", "rsqrt"),
    *("reciprocal", "square", "pow", "abs", "clamp", "clip", "clamp_min", "clamp_max", "sin", "cos", "atan"),
)
_PRODUCTS = ("matmul", "__matmul__", "__rmatmul__", "bmm", "mm", "einsum")
_FOLLOWED = (
    *("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "transpose", "permute", "expand"),
    *("narrow", "__getitem__", "nan_to_num"),
)
_SAME = ("dropout", "to", "type", "type_as", "float", "double", "half", "bfloat16", "clone", "contiguous", "neg")
_IN_PLACE = {
    **{f"{name}_": name for name in (*_POINTWISE, "mul", "div", "add", "sub", "masked_fill")},
    **{"multiply_": "mul", "divide_": "div", "true_divide_": "div", "subtract_": "sub"},
    **{"__imul__": "mul", "__idiv__": "div", "__itruediv__": "div", "__iadd__": "add", "__isub__": "sub"},
}
"""`x *= y` comes as `mul_` or as `__imul__`, by the version of torch."""
_PLAIN: dict[str, Rule] = {
    **ENDS,
    **dict.fromkeys((*_FOLLOWED, *_SAME), followed),
    **dict.fromkeys(_PRODUCTS, _mixing_only),
}
RULES: dict[str, Rule] = {
    **ENDS,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "glu": _gated,
    **dict.fromkeys(("linear", "conv1d", "conv2d", "conv3d"), _biased),
    **dict.fromkeys(_FACTORS, _summed_product),
    **dict.fromkeys((*_ELEMENTWISE, *_PRODUCTS), _product),
    **dict.fromkeys((*_TURNED, "div", "divide", "true_divide", "__truediv__"), _division),
    **dict.fromkeys(("var", "std", "norm", "vector_norm", "linalg_vector_norm", "linalg_norm"), _constant),
    **dict.fromkeys((*_DIFFERENCES, "add", "__add__", "__radd__", "__rsub__", "rsub"), _sum),
    **dict.fromkeys(_IN_PLACE, _in_place),
    **dict.fromkeys(("cat", "concat", "concatenate", "stack", "where", "masked_fill"), _joined),
    **dict.fromkeys((*_SAME, "__neg__"), _same),
    **dict.fromkeys(_FOLLOWED, followed),
    **dict.fromkeys(("relu6", "elu", "gelu", "silu", "mish", "leaky_relu", "softplus", "logsigmoid"), _pointwise),
    **dict.fromkeys(("hardtanh", "hardswish", "hardsigmoid", "softsign", "tanhshrink", "softshrink"), _pointwise),
    **dict.fromkeys((*_POINTWISE, "__pow__", "__rpow__"), _pointwise),
}
"""By the name of torch's function; what has no rule is linear, or found out by the check of the sum."""
