"""Edge weights `gradient` (Chefer et al. 2021) and `effective` (Brunner et al. 2020).

A head's output is A V. Any part of a row of A in the left null space of V changes nothing. Without it the row is the
one of least norm that gives the same output:

    E = A U Uᵀ,   V = U S Wᵀ over the keys that the query can see

Where a query sees no more keys than the head width, usually E = A. E can be negative, and its rows do not sum to 1. An
edge weighs |E|, rows normalized to 1; for all heads together their mean.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attnx.attention import AttentionLayer, RowBlock, normalize_rows, pad_keys
from attnx.errors import AttentionError
from attnx.graph.decomposition import expanded_values
from attnx.graph.edge_weights import EdgeWeights


def attention_x_gradient(layer: AttentionLayer, start: int, stop: int) -> RowBlock:
    """head × query × key, in float64: A ∘ ∂s/∂A, negative where attention opposes the target."""
    if "gradient" not in layer.captured:
        raise AttentionError(
            "these edge weights need the gradient of a target, which attention alone does not contain; call "
            "attnx.explain with the method, for a model with a head"
        )
    block = layer.rows(start, stop)
    gradient = layer.captured["gradient"][:, start:stop].double()
    gain = gradient @ expanded_values(layer)[:, block.keys].double().transpose(1, 2)
    return RowBlock(block.first_key, block.weights.double() * gain)


def positive_attention_x_gradient(layer: AttentionLayer, start: int, stop: int) -> RowBlock:
    """head × query × key."""
    block = attention_x_gradient(layer, start, stop)
    return RowBlock(block.first_key, block.weights.clamp(min=0))


def normalized_by_head(layer: AttentionLayer, start: int, stop: int) -> RowBlock:
    """head × query × key, rows normalized to 1."""
    block = positive_attention_x_gradient(layer, start, stop)
    return RowBlock(block.first_key, normalize_rows(block.weights))


def normalized(layer: AttentionLayer, start: int, stop: int) -> RowBlock:
    """1 × query × key, rows normalized to 1: heads that matter less for the target weigh less."""
    block = positive_attention_x_gradient(layer, start, stop)
    return RowBlock(block.first_key, normalize_rows(torch.mean(block.weights, 0, keepdim=True)))


def _there_and_back(positions: int) -> float:
    return 2.0


GRADIENT = EdgeWeights(
    "gradient",
    positive_attention_x_gradient,
    needs=frozenset({"values"}),
    residual="added",
    target_specific=True,
    paper="Chefer et al. 2021",
    costs="one run, and a way back through it for each answer",
    forwards=_there_and_back,
)
GRADIENT_SIGNED = EdgeWeights(
    "gradient_signed",
    attention_x_gradient,
    needs=frozenset({"values"}),
    residual="added",
    signed=True,
    target_specific=True,
    supports_sequences=False,
    paper="Chefer et al. 2021, with signs",
    costs="one run, and a way back through it for each answer",
    forwards=_there_and_back,
)
GRADIENT_SHARE = EdgeWeights(
    "gradient_share",
    normalized_by_head,
    together=normalized,
    needs=frozenset({"values"}),
    target_specific=True,
    paper="Chefer et al. 2021",
    costs="one run, and a way back through it for each answer",
    forwards=_there_and_back,
)


def effective_attention(layer: AttentionLayer, start: int, stop: int) -> RowBlock:
    """head × query × key, in float64: signed, and E V = A V."""
    block = layer.rows(start, stop)
    weights, values = pad_keys(block, layer.mask.length).double(), expanded_values(layer).double()
    tolerance = torch.finfo(layer.captured["values"].dtype).eps * max(values.shape[1:])
    visible = layer.mask.visible(start, stop)
    sets, row_of = torch.unique(visible, dim=0, return_inverse=True)
    tensor = weights.clone()
    for number, seen in enumerate(sets):
        rows, keys = (row_of == number).nonzero()[:, 0], seen.nonzero()[:, 0]
        if len(keys):
            tensor[:, rows[:, None], keys] = _seen(weights[:, rows][..., keys], values[:, keys], tolerance)
    return RowBlock(0, tensor)


def effective_heads(layer: AttentionLayer, start: int, stop: int) -> RowBlock:
    """head × query × key."""
    block = effective_attention(layer, start, stop)
    return RowBlock(block.first_key, normalize_rows(block.weights.abs()))


def effective(layer: AttentionLayer, start: int, stop: int) -> RowBlock:
    """1 × query × key."""
    block = effective_attention(layer, start, stop)
    return RowBlock(block.first_key, normalize_rows(block.weights.abs().mean(0, keepdim=True)))


def _seen(weights: Tensor, values: Tensor, tolerance: float) -> Tensor:
    """head × query × key of effective attention, over keys that all these queries see."""
    across = values.transpose(1, 2)
    few = values.shape[1] <= values.shape[2]
    # Unless values are nearly dependent, their Cholesky factor suffices; of few keys the null space is empty.
    factor, failed = torch.linalg.cholesky_ex(values @ across if few else across @ values)
    pivots = factor.diagonal(dim1=1, dim2=2)
    # A pivot is the root of a difference of sums; for a dependent value rounding alone leaves this much.
    rounding = 2 * (torch.finfo(values.dtype).eps * sum(values.shape[1:])) ** 0.5
    if not bool(failed.any()) and bool((pivots.amin(1) > pivots.amax(1) * max(tolerance, rounding)).all()):
        if few:
            return weights
        outputs = weights @ values
        return (values @ torch.cholesky_solve(outputs.transpose(1, 2), factor)).transpose(1, 2)
    basis, sizes, _ = torch.linalg.svd(values, full_matrices=False)
    kept: Tensor = basis * (sizes > sizes[:, :1] * tolerance)[:, None]
    return weights @ kept @ kept.transpose(1, 2)


EFFECTIVE = EdgeWeights(
    "effective",
    effective_heads,
    together=effective,
    needs=frozenset({"values"}),
    paper="Brunner et al. 2020",
    costs="one run, and values of every head taken apart; of decoders for each query",
)
