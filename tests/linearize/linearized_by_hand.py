"""What frozen runs are held against: GPT-2 written out, an affine map of other embeddings; a path not frozen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnx.linearize import Path

GRADIENT = Path("gradient", values=1.0, scores=1.0, linearized=False)
"""The model's own gradient, which autograd gives as well."""


def linearized_gpt2(model: Any, ids: Tensor, direction: Tensor) -> Callable[[Tensor], Tensor]:
    """F(embeddings) → the last position's state along `direction`, with attention, norms and slopes as at `ids`."""
    kept: list[Tensor] = []
    embedded = model.wte(ids)[0].detach()
    run(model, embedded, direction, lambda made: kept.append(made()) or kept[-1])

    def frozen(other: Tensor) -> Tensor:
        places = iter(kept)
        return run(model, other, direction, lambda made: next(places))

    return frozen


@torch.no_grad()
def run(model: Any, embedded: Tensor, direction: Tensor, constant: Callable[[Callable[[], Tensor]], Tensor]) -> Tensor:
    """The model on n × width embeddings; its constants go through `constant`, which keeps or replaces them."""
    states = embedded + model.wpe.weight[: len(embedded)]
    for block in model.h:
        states = states + attention(block.attn, norm(block.ln_1, states, constant), constant)
        inner = norm(block.ln_2, states, constant) @ block.mlp.c_fc.weight + block.mlp.c_fc.bias
        slopes = constant(lambda inner=inner, block=block: block.mlp.act(inner) / inner)
        states = states + (inner * slopes) @ block.mlp.c_proj.weight + block.mlp.c_proj.bias
    return norm(model.ln_f, states, constant)[-1] @ direction


def norm(layer: Any, states: Tensor, constant: Callable[..., Tensor]) -> Tensor:
    scale = constant(lambda: 1 / (states.var(-1, unbiased=False, keepdim=True) + layer.eps).sqrt())
    return (states - states.mean(-1, keepdim=True)) * scale * layer.weight + layer.bias


def attention(layer: Any, states: Tensor, constant: Callable[..., Tensor]) -> Tensor:
    query, key, value = (
        each.unflatten(-1, (layer.num_heads, -1)).transpose(0, 1)
        for each in (states @ layer.c_attn.weight + layer.c_attn.bias).chunk(3, -1)
    )
    future = torch.ones(len(states), len(states), dtype=torch.bool).triu(1)
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    weights = constant(lambda: scores.masked_fill(future, -torch.inf).softmax(-1))
    return (weights @ value).transpose(0, 1).flatten(1) @ layer.c_proj.weight + layer.c_proj.bias
