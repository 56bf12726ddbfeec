"""Where attention happens in a model, and what its values, queries and keys get of the gradient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attnx.attention.computed import attention_weights
from attnx.attention.visibility import causal_mask
from attnx.capturing.entering import is_table_of
from attnx.capturing.frozen.carried import can_be_written_out
from attnx.capturing.frozen.carried import mixed as mixed_values
from attnx.capturing.frozen.mode import Freezing, Function, Rule
from attnx.capturing.frozen.straight import halved, scaled

_FUSED = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
_MODULE = (
    *("query", "key", "value", "embed_dim_to_check", "num_heads", "in_proj_weight", "in_proj_bias"),
    *("bias_k", "bias_v", "add_zero_attn", "dropout_p", "out_proj_weight", "out_proj_bias"),
)


def fused(mode: Freezing, func: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
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


def softmax(mode: Freezing, func: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Attention that is written out begins with a softmax over keys; so does a router, which is a choice as well."""
    if mode.path.scores == 0:
        args = [one.detach() if isinstance(one, Tensor) else one for one in args]
        kwargs = {name: one.detach() if isinstance(one, Tensor) else one for name, one in kwargs.items()}
    result = func(*args, **kwargs)
    axis = kwargs.get("dim", args[1] if len(args) > 1 else -1)
    return mode.as_softmax(result) if result.ndim >= 3 and axis in (-1, result.ndim - 1) else result


def mixed(mode: Freezing, func: Function, args: list[Any], kwargs: dict[str, Any], operands: tuple[Any, Any]) -> Any:
    """The result of a softmax times values."""
    weights, values = operands if mode.is_softmax(operands[0]) else operands[::-1]
    shares = {id(weights): scaled(weights, mode.path.scores), id(values): scaled(values, mode.path.values)}
    return mode.kernel(values, func(*_swapped(args, shares), **kwargs))


def weighed(mode: Freezing, func: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result of a softmax times a mask, or what a router chose times its weight."""
    result = func(*args, **kwargs)
    both = all(isinstance(one, Tensor) and one.requires_grad for one in args)
    return mode.as_function(halved(result) if both else result, *args)


def followed(mode: Freezing, func: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Another shape, or a part: attention is still attention, but a function of a tensor is so place by place."""
    result = mode.untold(func, args, kwargs)
    return mode.as_softmax(result) if args and mode.is_softmax(args[0]) else result


def module_attention(mode: Freezing, func: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
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
    projected = _linear(mode, given["value"], projection, None if bias is None else bias[first:])
    batched = projected if projected.ndim == 3 else projected[:, None]
    values = batched.reshape(*batched.shape[:2], given["num_heads"], -1).permute(1, 2, 0, 3)
    outputs = mode.kernel(values, weights @ scaled(values, mode.path.values)).permute(2, 0, 1, 3).flatten(2)
    outputs = outputs if plain.ndim == 3 else outputs[:, 0]
    result = _linear(mode, outputs, given["out_proj_weight"], given["out_proj_bias"])
    if not kwargs.get("need_weights", True):
        return result, None
    return result, weights.mean(1) if kwargs.get("average_attn_weights", True) else weights


def embedding(mode: Freezing, func: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The input enters the model as rows of its embedding, and of any other table in which its ids are looked up.

    Gemma 3n has a second table, LoRA a second factor. GPT-2 takes kinds of tokens from the first, by other ids.
    """
    rows = func(*args, **kwargs)
    given = {**dict(zip(("input", "weight"), args, strict=False)), **kwargs}
    ids = mode.ids(given["input"])
    for place, module in enumerate(mode.embeddings):
        if is_table_of(module, given["weight"]):
            del mode.embeddings[place]
            return mode.enter(rows, ids)
    stream = mode.stream_of(ids)
    return rows if stream is None or not rows.is_floating_point() else mode.enter(rows, ids, stream)


def _linear(mode: Freezing, states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    result = F.linear(states, weight)
    return result if bias is None else mode.with_constant(result + bias, bias)


def _swapped(args: Sequence[Any], by: Mapping[int, Tensor]) -> list[Any]:
    return [_swapped(one, by) if isinstance(one, (list, tuple)) else by.get(id(one), one) for one in args]


ENDS: dict[str, Rule] = {
    "embedding": embedding,
    "scaled_dot_product_attention": fused,
    "multi_head_attention_forward": module_attention,
    "softmax": softmax,
}
"""Where the input comes in and values are mixed: all that a run without frozen gradients has to see."""
