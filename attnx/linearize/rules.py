"""The rule of each of torch's functions in the linearized model; `RULES` at the end says which function has which.

A rule gives the function's own result with another gradient. A function without a rule is linear, or found by the
conservation check.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.attention import attention_weights, causal_mask
from attnx.hooks import Entry, Function, take_table
from attnx.linearize.autograd import (
    can_be_materialized,
    gated_product,
    halved,
    is_plain_map,
    linear_map,
    mix_values,
    norm_with_constant_scale,
    scaled,
    secant,
)
from attnx.linearize.matmul import can_use_onednn, onednn_linear
from attnx.linearize.mode import LinearizeMode, Path, Rule

Args = list[Any]
Kwargs = dict[str, Any]


def linearize_mode(
    model: nn.Module, path: Path, entry: Entry, *, mode: type[LinearizeMode] = LinearizeMode, **options: Any
) -> LinearizeMode:
    """The mode for a model whose input comes out of the module `entry`, or is that leaf; of several, out of each."""
    names = {id(module): name for name, module in model.named_modules()}
    entries = entry if isinstance(entry, tuple) else (entry,)
    leaves = [tensor for tensor in entries if isinstance(tensor, Tensor)]
    embeddings = [module for module in entries if isinstance(module, nn.Module)]
    rules = RULES if path.linearized else _ATTENTION_RULES
    return mode(path, rules, names=names, leaves=leaves, embeddings=embeddings, **options)


def _detached(arguments: Sequence[Any]) -> Args:
    return [argument.detach() if isinstance(argument, Tensor) else argument for argument in arguments]


def _named(args: Args, kwargs: Kwargs, *names: str, **defaults: Any) -> Kwargs:
    """All arguments by name."""
    return {**defaults, **dict(zip(names, args, strict=False)), **kwargs}


# The input and attention


def _embedding(mode: LinearizeMode, func: Function, args: Args, kwargs: Kwargs) -> Any:
    """The input enters as rows of its embedding, and of any other table in which its ids are looked up.

    Gemma 3n has a second table, LoRA a second factor. GPT-2 looks up token types in the first, by other ids.
    """
    rows = func(*args, **kwargs)
    call = _named(args, kwargs, "input", "weight")
    ids = mode.ids(call["input"])
    if mode.embeddings and take_table(mode.embeddings, call["weight"]):
        return mode.enter(rows, ids)
    sequence = mode.sequence_of(ids)
    return rows if sequence is None or not rows.is_floating_point() else mode.enter(rows, ids, sequence)


def _fused_attention(mode: LinearizeMode, func: Function, args: Args, kwargs: Kwargs) -> Any:
    """It stays fused: a mask with a gradient, or one head for all, makes it materialize n × n."""
    call = _named(args, kwargs, "query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    query, key, values = call["query"], call["key"], call["value"]
    if isinstance(call.get("attn_mask"), Tensor):
        call["attn_mask"] = call["attn_mask"].detach()
    if not call.get("enable_gqa") and query.ndim == 4:
        key, values = (x.expand(-1, query.shape[1], -1, -1) if x.shape[1] == 1 else x for x in (key, values))
    call |= {"query": scaled(query, mode.path.queries), "key": scaled(key, mode.path.queries)}
    carried = scaled(values, mode.path.values)
    on_cpu = values.requires_grad and torch.is_grad_enabled() and query.device.type == "cpu"
    plain = query.ndim == values.ndim == 4 and not call.get("dropout_p")
    if mode.path.queries == 0 and on_cpu and plain and can_be_materialized(call["query"], call["key"]):
        constant = {**call, "value": values.detach()}
        outputs = mix_values(carried, lambda: _weights(constant), lambda: func(**constant), repeated=mode.repeated)
        return mode.kernel(values, outputs)
    return mode.kernel(values, func(**{**call, "value": carried}))


def _weights(call: Mapping[str, Any]) -> Tensor:
    """The attention of a fused call, batch × head × query × key."""
    query, key, mask = call["query"], call["key"], call.get("attn_mask")
    if call.get("is_causal"):
        mask = causal_mask(query.shape[-2], key.shape[-2], query.device)
    return attention_weights(query, key, mask=mask, scale=call.get("scale"))


_MODULE_ARGUMENTS = (
    *("query", "key", "value", "embed_dim_to_check", "num_heads", "in_proj_weight", "in_proj_bias"),
    *("bias_k", "bias_v", "add_zero_attn", "dropout_p", "out_proj_weight", "out_proj_bias"),
)


def _module_attention(mode: LinearizeMode, func: Function, args: Args, kwargs: Kwargs) -> Any:
    """torch's own attention module: the weights that it returns, times values that are projected beside it."""
    call = _named(args, kwargs, *_MODULE_ARGUMENTS)
    if call["bias_k"] is not None or call["add_zero_attn"]:
        return mode.without_rule(func, args, kwargs)
    scores = {name: scaled(call[name], mode.path.queries) for name in ("query", "key")}
    request = {"need_weights": True, "average_attn_weights": False}
    plain, weights = func(**{**call, **scores, "value": call["value"].detach(), **request})
    weights = weights if weights.ndim == 4 else weights[None]
    first = 2 * call["embed_dim_to_check"]
    joint, bias = call["in_proj_weight"], call["in_proj_bias"]
    # WavLM gives projections one by one, and an empty tensor for all in one.
    separate = joint is None or call.get("use_separate_proj_weight", False)
    projection = call["v_proj_weight"] if separate else joint[first:]
    projected = _projected(mode, call["value"], projection, None if bias is None else bias[first:])
    batched = projected if projected.ndim == 3 else projected[:, None]
    values = batched.reshape(*batched.shape[:2], call["num_heads"], -1).permute(1, 2, 0, 3)
    outputs = mode.kernel(values, weights @ scaled(values, mode.path.values)).permute(2, 0, 1, 3).flatten(2)
    outputs = outputs if plain.ndim == 3 else outputs[:, 0]
    result = _projected(mode, outputs, call["out_proj_weight"], call["out_proj_bias"])
    if not kwargs.get("need_weights", True):
        return result, None
    return result, weights.mean(1) if kwargs.get("average_attn_weights", True) else weights


def _projected(mode: LinearizeMode, states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    result = F.linear(states, weight)
    return result if bias is None else mode.with_constant(result + bias, bias)


def _softmax(mode: LinearizeMode, func: Function, args: Args, kwargs: Kwargs) -> Any:
    """Eager attention begins with a softmax over keys; so does a router, which is a choice as well."""
    if mode.path.scores == 0:
        args, kwargs = _detached(args), dict(zip(kwargs, _detached([*kwargs.values()]), strict=True))
    result = func(*args, **kwargs)
    axis = kwargs.get("dim", args[1] if len(args) > 1 else -1)
    return mode.as_softmax(result) if result.ndim >= 3 and axis in (-1, result.ndim - 1) else result


def _mix_if_attention(mode: LinearizeMode, func: Function, args: Args, kwargs: Kwargs) -> Any:
    """A product of a run that is not linearized: only attention has a rule."""
    operands = _operands(func, args)
    return _mix(mode, func, args, kwargs, *operands) if _is_attention(mode, *operands) else func(*args, **kwargs)


def _is_attention(mode: LinearizeMode, *operands: Any) -> bool:
    large = all(isinstance(operand, Tensor) and operand.ndim >= 3 for operand in operands)
    return large and any(map(mode.is_softmax, operands))


def _mix(mode: LinearizeMode, func: Function, args: Args, kwargs: Kwargs, first: Any, second: Any) -> Any:
    """The result of a softmax times values."""
    weights, values = (first, second) if mode.is_softmax(first) else (second, first)
    shares = {id(weights): scaled(weights, mode.path.scores), id(values): scaled(values, mode.path.values)}
    return mode.kernel(values, func(*_replaced(args, shares), **kwargs))


def _replaced(args: Sequence[Any], by: Mapping[int, Tensor]) -> Args:
    return [_replaced(x, by) if isinstance(x, (list, tuple)) else by.get(id(x), x) for x in args]


def _operands(func: Function, args: Args) -> tuple[Any, Any]:
    if func.__name__ == "einsum":
        args = list(args[1]) if len(args) == 2 and isinstance(args[1], (list, tuple)) else args[1:]
    return (args[0], args[1]) if len(args) == 2 else (None, None)


def _reshape(mode: LinearizeMode, func: Function, args: Args, kwargs: Kwargs) -> Any:
    """Another shape, or a part: attention stays attention, but an elementwise function is one of its own shape."""
    result = mode.without_rule(func, args, kwargs)
    return mode.as_softmax(result) if args and mode.is_softmax(args[0]) else result


# Linear operations, whose constant summands are biases


def _linear(mode: LinearizeMode, func: Function, args: Args, kwargs: Kwargs) -> Any:
    constants = _detached(args)
    fast = 2 <= len(args) <= 3 and not kwargs and can_use_onednn(*constants)

    def compute() -> Tensor:
        result: Tensor = onednn_linear(*constants) if fast else func(*constants, **kwargs)
        return result

    fixed = not any(isinstance(x, Tensor) and x.requires_grad for x in (*args[1:], *kwargs.values()))
    plain = len(args) > 1 and fixed and is_plain_map(args[0], args[1])
    result = mode.as_linear(linear_map(args[0], args[1], compute) if plain else func(*args, **kwargs), compute)
    bias = kwargs.get("bias", args[2] if len(args) > 2 else None)
    return result if bias is None else mode.with_constant(result, bias)


def _convolution(mode: LinearizeMode, func: Function, args: Args, kwargs: Kwargs) -> Any:
    result = func(*args, **kwargs)
    bias = kwargs.get("bias", args[2] if len(args) > 2 else None)
    return result if bias is None else mode.with_constant(result, bias.reshape(-1, *[1] * (result.ndim - 2)))


def _add_product(mode: LinearizeMode, func: Function, args: Args, kwargs: Kwargs) -> Any:
    """`addmm` and its like: a summand and a product."""
    names = ("input", *_FACTORS[func.__name__])
    call = _named(args, kwargs, *names)
    summand, first, second = (call.pop(name) for name in names)
    if first.requires_grad and second.requires_grad:
        first, second = scaled(first, 0.5), scaled(second, 0.5)
    if not call and not summand.requires_grad and is_plain_map(first, second):
        constant = first.detach()
        result = linear_map(first, second.t(), lambda: func(summand, constant, second))
    else:
        result = func(summand, first, second, **call)
    return result if summand.requires_grad else mode.with_constant(result, summand * call.get("beta", 1))


def _sum(mode: LinearizeMode, func: Function, args: Args, kwargs: Kwargs) -> Any:
    depends = [mode.root(argument) is not None for argument in args]
    result = func(*args, **kwargs)
    if len(args) == 2 and isinstance(result, Tensor) and result.requires_grad and not all(depends):
        constant = args[depends.index(False)]
        negative = func.__name__ in _DIFFERENCES and not depends[1]
        factor = (-1 if negative else 1) * kwargs.get("alpha", 1)
        mode.with_constant(result, constant if factor == 1 else constant * factor)
    return mode.as_function(result, *args)


def _concatenate(mode: LinearizeMode, func: Function, args: Args, kwargs: Kwargs) -> Any:
    """Tensors side by side, some of which are constants: CLS before patches, a number where a mask is."""
    result = func(*args, **kwargs)
    if mode.path.conserves and isinstance(result, Tensor) and result.requires_grad:  # `where` of one gives indices
        with torch.no_grad():
            constant = func(*map(_zeroed, args), **{name: _zeroed(argument) for name, argument in kwargs.items()})
        if bool((constant != 0).any()):
            mode.with_constant(result, constant)
    return result


def _zeroed(argument: Any) -> Any:
    if isinstance(argument, (list, tuple)):
        return type(argument)(map(_zeroed, argument))
    return torch.zeros_like(argument) if isinstance(argument, Tensor) and argument.requires_grad else argument


def _copy(mode: LinearizeMode, func: Function, args: Args, kwargs: Kwargs) -> Any:
    """The same numbers in another form."""
    return mode.as_function(mode.without_rule(func, args, kwargs), args[0] if args else kwargs.get("input"))


# Norms, activations and products


def _layer_norm(mode: LinearizeMode, func: Function, args: Args, kwargs: Kwargs) -> Any:
    names = ("input", "normalized_shape", "weight", "bias", "eps")
    call = _named(args, kwargs, *names, weight=None, bias=None, eps=1e-5)
    states, weight, bias, shape = call["input"], call["weight"], call["bias"], list(call["normalized_shape"])
    if not states.requires_grad:
        return func(*args, **kwargs)

    def value_and_scale() -> tuple[Tensor, Tensor]:
        value, _, scale = torch.native_layer_norm(states.detach(), shape, weight, bias, call["eps"])
        return value, scale

    result = norm_with_constant_scale(states, value_and_scale, weight, tuple(range(-len(shape), 0)))
    return result if bias is None else mode.with_constant(result, bias)


def _rms_norm(mode: LinearizeMode, func: Function, args: Args, kwargs: Kwargs) -> Any:
    call = _named(args, kwargs, "input", "normalized_shape", "weight", "eps", weight=None, eps=None)
    states = call["input"]
    if not states.requires_grad:
        return func(*args, **kwargs)
    axes = tuple(range(-len(call["normalized_shape"]), 0))
    eps = torch.finfo(states.dtype).eps if call["eps"] is None else call["eps"]

    def value_and_scale() -> tuple[Tensor, Tensor]:
        wide = states.detach().to(torch.promote_types(states.dtype, torch.float32))
        scale = torch.rsqrt(wide.square().mean(axes, keepdim=True) + eps)
        return func(**{**call, "input": states.detach()}), scale

    return norm_with_constant_scale(states, value_and_scale, call["weight"], None)


def _activation(mode: LinearizeMode, func: Function, args: Args, kwargs: Kwargs) -> Any:
    """An elementwise function of one tensor: the secant through 0, or a constant."""
    tensors = [argument for argument in args if isinstance(argument, Tensor)]
    options = any(isinstance(argument, Tensor) for argument in kwargs.values())
    if len(tensors) != 1 or mode.root(tensors[0]) is None or options:
        return mode.without_rule(func, args, kwargs)
    tensor = tensors[0]
    if kwargs.get("inplace") or any(argument is True for argument in args):  # by name or by position
        args = [False if argument is True else argument for argument in args]
        kwargs = {**kwargs, "inplace": False} if "inplace" in kwargs else kwargs
        return mode.overwrite(tensor, _activation(mode, func, args, kwargs))
    constants = _detached(args)
    if not (tensor.requires_grad and torch.is_grad_enabled() and mode.through_zero(func, constants, kwargs)):
        return mode.as_function(func(*constants, **kwargs), tensor)
    result = secant(tensor, lambda: func(*constants, **kwargs))
    if mode.root(tensor) is not tensor:
        return mode.as_function(result, tensor)
    index = next(index for index, argument in enumerate(args) if argument is tensor)
    before, after = args[:index], args[index + 1 :]  # without the tensor, which would be kept alive

    def compute(other: Tensor) -> Tensor:
        value: Tensor = func(*before, other, *after, **kwargs)
        return value

    return mode.as_call(result, tensor, compute)


def _glu(mode: LinearizeMode, func: Function, args: Args, kwargs: Kwargs) -> Any:
    """The gate is a sigmoid, so a constant."""
    states, gate = args[0].chunk(2, kwargs.get("dim", args[1] if len(args) > 1 else -1))
    return states * gate.detach().sigmoid()


def _product(mode: LinearizeMode, func: Function, args: Args, kwargs: Kwargs) -> Any:
    elementwise = func.__name__ in _ELEMENTWISE
    first, second = _operands(func, args)
    if not elementwise and _is_attention(mode, first, second):
        return _mix(mode, func, args, kwargs, first, second)
    if mode.is_softmax(first) or mode.is_softmax(second):  # times a mask, or a router's weight times its choice
        result = func(*args, **kwargs)
        both = all(isinstance(argument, Tensor) and argument.requires_grad for argument in args)
        return mode.as_function(halved(result) if both else result, *args)
    root, other = mode.root(first), mode.root(second)
    if root is None or other is None:
        result = mode.without_rule(func, args, kwargs)
        return mode.as_function(result, first, second) if elementwise else result
    constants = first.detach(), second.detach()
    if elementwise and root is other and first.shape == second.shape == root.shape:
        result = secant(root, lambda: func(*constants)) if torch.is_grad_enabled() else func(*constants)
        return mode.as_function(result, first)
    if not (first.requires_grad and second.requires_grad and torch.is_grad_enabled()):
        return func(*args, **kwargs)
    call, factor = mode.call_of(first), second
    if call is None:
        call, factor = mode.call_of(second), first
    if elementwise and call is not None and call[0].shape == factor.shape and call[0].dtype == factor.dtype:
        operands = mode.recomputable(call[0]), mode.recomputable(factor)
        return gated_product(*operands, call[1], lambda: func(*constants), repeated=mode.repeated)
    return halved(func(*args, **kwargs))


def _division(mode: LinearizeMode, func: Function, args: Args, kwargs: Kwargs) -> Any:
    """The denominator is a constant."""
    denominator = 0 if func.__name__ in _REFLECTED_DIVISIONS else 1
    args[denominator : denominator + 1] = _detached(args[denominator : denominator + 1])
    return mode.as_function(func(*args, **kwargs), args[1 - denominator])


def _spread(mode: LinearizeMode, func: Function, args: Args, kwargs: Kwargs) -> Any:
    """A standard deviation or norm is a constant."""
    return func(*_detached(args), **kwargs)


def _in_place(mode: LinearizeMode, func: Function, args: Args, kwargs: Kwargs) -> Any:
    """`x *= y` and its like: what `x * y` gives, which `x` then holds."""
    name, (changed, *others) = _IN_PLACE[func.__name__], args
    depends = [isinstance(argument, Tensor) and mode.root(argument) is not None for argument in args]
    if not any(depends):
        return mode.without_rule(func, args, kwargs)
    needed = not depends[0] or (any(depends[1:]) and name not in ("add", "sub"))  # by backward, as it was before
    operand = mode.as_function(changed.clone(), changed) if needed else changed
    return mode.overwrite(changed, RULES[name](mode, getattr(torch, name), [operand, *others], kwargs))


_FACTORS = {"addmm": ("mat1", "mat2"), "baddbmm": ("batch1", "batch2")}
_ELEMENTWISE = ("mul", "__mul__", "__rmul__", "multiply")
_MATRIX_PRODUCTS = ("matmul", "__matmul__", "__rmatmul__", "bmm", "mm", "einsum")
_REFLECTED_DIVISIONS = ("__rdiv__", "__rtruediv__")
_DIFFERENCES = ("sub", "__sub__", "subtract")
_FUNCTIONS = (
    *("relu", "tanh", "selu", "celu", "sigmoid", "exp", "expm1", "log", "log1p", "erf", "sqrt", "rsqrt"),
    *("reciprocal", "square", "pow", "abs", "clamp", "clip", "clamp_min", "clamp_max", "sin", "cos", "atan"),
)
_ACTIVATIONS = (
    *("relu6", "elu", "gelu", "silu", "mish", "leaky_relu", "softplus", "logsigmoid", "__pow__", "__rpow__"),
    *("hardtanh", "hardswish", "hardsigmoid", "softsign", "tanhshrink", "softshrink"),
)
_SHAPES = (
    *("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "transpose", "permute", "expand"),
    *("narrow", "__getitem__", "nan_to_num"),
)
_COPIES = ("dropout", "to", "type", "type_as", "float", "double", "half", "bfloat16", "clone", "contiguous", "neg")
_IN_PLACE = {
    **{f"{name}_": name for name in (*_FUNCTIONS, "mul", "div", "add", "sub", "masked_fill")},
    **{"multiply_": "mul", "divide_": "div", "true_divide_": "div", "subtract_": "sub"},
    **{"__imul__": "mul", "__idiv__": "div", "__itruediv__": "div", "__iadd__": "add", "__isub__": "sub"},
}
"""`x *= y` comes as `mul_` or as `__imul__`, by the version of torch."""

_INPUT_AND_ATTENTION: dict[str, Rule] = {
    "embedding": _embedding,
    "scaled_dot_product_attention": _fused_attention,
    "multi_head_attention_forward": _module_attention,
    "softmax": _softmax,
}
_ATTENTION_RULES: dict[str, Rule] = {
    **_INPUT_AND_ATTENTION,
    **dict.fromkeys((*_SHAPES, *_COPIES), _reshape),
    **dict.fromkeys(_MATRIX_PRODUCTS, _mix_if_attention),
}
"""Those of a path whose gradients are the model's own."""

RULES: dict[str, Rule] = {
    **_INPUT_AND_ATTENTION,
    "linear": _linear,
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _convolution),
    **dict.fromkeys(_FACTORS, _add_product),
    **dict.fromkeys((*_DIFFERENCES, "add", "__add__", "__radd__", "__rsub__", "rsub"), _sum),
    **dict.fromkeys(("cat", "concat", "concatenate", "stack", "where", "masked_fill"), _concatenate),
    **dict.fromkeys(_SHAPES, _reshape),
    **dict.fromkeys((*_COPIES, "__neg__"), _copy),
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "glu": _glu,
    **dict.fromkeys((*_FUNCTIONS, *_ACTIVATIONS), _activation),
    **dict.fromkeys((*_ELEMENTWISE, *_MATRIX_PRODUCTS), _product),
    **dict.fromkeys((*_REFLECTED_DIVISIONS, "div", "divide", "true_divide", "__truediv__"), _division),
    **dict.fromkeys(("var", "std", "norm", "vector_norm", "linalg_vector_norm", "linalg_norm"), _spread),
    **dict.fromkeys(_IN_PLACE, _in_place),
}
"""Function of torch → what is done instead of it."""
