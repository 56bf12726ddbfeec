"""`value_zeroing`: how far a block's output output_change when one key's value is 0 (Mohebbi et al. 2023).

    c[i,j] = 1 − cos(y_i, y_i without v(j)),  each row scaled to 1

y_i is the block's output at query i, MLP and norms included; of the last block, before the final norm. Attention does
not depend on values, so the state after attention is the original one minus the contribution of key j, and only the
rest of the block (its tail) is run again, a batch of vectors at a time. For a single head, only its own
value is zeroed. The residual is never removed, and none is added.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attnx.attention import MAX_BLOCK_ELEMENTS, AttentionLayer, BlockTail, RowBlock
from attnx.errors import AttentionError
from attnx.graph.decomposition import Contributions, expanded_values, normalize_rows_or_identity
from attnx.graph.edge_weights import EdgeWeights

_INNER = 4
"""The usual ratio of an MLP's width to that of the residual stream, for memory and cost."""

_OPERATIONS_A_SECOND = 50e9
"""More than one core does in single precision, so that estimates are lower bounds."""


def output_change(layer: AttentionLayer, start: int, stop: int) -> RowBlock:
    """1 × query × key: the value of the key is zeroed in all heads."""
    block = layer.rows(start, stop)
    tensor = _cosine_distances(layer, block.weights, start, block.keys)
    return RowBlock(block.first_key, normalize_rows_or_identity(tensor, start, block.first_key)[None])


def output_change_by_head(layer: AttentionLayer, start: int, stop: int) -> RowBlock:
    """head × query × key: the value of the key is zeroed in one head."""
    block = layer.rows(start, stop)
    tensor = torch.zeros_like(block.weights, dtype=torch.float64)
    for head in range(len(tensor)):
        alone = torch.zeros_like(block.weights)
        alone[head] = block.weights[head]
        tensor[head] = _cosine_distances(layer, alone, start, block.keys)
    return RowBlock(block.first_key, normalize_rows_or_identity(tensor, start, block.first_key))


def _cosine_distances(layer: AttentionLayer, weights: Tensor, start: int, keys: slice) -> Tensor:
    """query × key of 1 − cos in float64; exactly 0 where the key contributes nothing."""
    tail = _block_tail(layer)
    contributions = _contributions(layer)
    queries = torch.arange(start, start + weights.shape[1], device=weights.device)
    untouched = _unit_outputs(tail, torch.zeros_like(contributions.residual[queries]), queries)
    tensor = weights.new_zeros(weights.shape[1:], dtype=torch.float64)
    for some, columns, taken in contributions.vectors(weights, start, keys):
        handed = taken.any(-1)
        column, row = handed.nonzero(as_tuple=True)
        row = row + some.start
        turned = _unit_outputs(tail, taken[handed], queries[row])
        # For unit vectors half the squared distance is 1 − cos, without the cancellation of two numbers near 1.
        tensor[row, column + columns.start] = (turned - untouched[row]).square().sum(-1) / 2
    return tensor


def _unit_outputs(tail: BlockTail, taken: Tensor, queries: Tensor) -> Tensor:
    """vector × width in float64: the block's outputs, normalized."""
    size = max(1, MAX_BLOCK_ELEMENTS // (_INNER * taken.shape[-1]))
    parts = (slice(begin, begin + size) for begin in range(0, len(taken), size))
    left = [tail(taken[some], queries[some]).double() for some in parts]
    return torch.nn.functional.normalize(torch.cat(left), dim=-1) if left else taken.double()


def _seconds(width: int) -> float:
    """For one edge: one vector through an MLP, a multiplication and an addition for each weight."""
    return 4.0 * _INNER * width**2 / _OPERATIONS_A_SECOND


def _contributions(layer: AttentionLayer) -> Contributions:
    """The contributions of keys after the output projection, without norms and residual."""
    values = expanded_values(layer)
    projection = layer.captured["projections"].to(values)
    nothing = torch.zeros_like(layer.captured["states"]).to(values)
    projections = projection.reshape(len(projection), len(values), -1)
    return Contributions(values, projections, torch.ones_like(nothing[:, 0]), nothing, nothing)


def _block_tail(layer: AttentionLayer) -> BlockTail:
    if layer.rest is None:
        raise AttentionError(
            "these edge weights need the tail of each block, which attention alone does not contain; capture with "
            "extras=('rest',), or call attnx.explain with the method"
        )
    return layer.rest


VALUE_ZEROING = EdgeWeights(
    "value_zeroing",
    output_change_by_head,
    together=output_change,
    needs=frozenset({"rest"}),
    residual="inside",
    supports_sequences=False,
    paper="Mohebbi et al. 2023",
    costs="one run, and the rest of each block for each edge: a run for each position, without attention",
    forwards=lambda positions: positions + 1.0,
    seconds=_seconds,
)
