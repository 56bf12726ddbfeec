"""`alti`: how much nearer each part brings what goes on (Ferrando et al. 2022).

    c[i,j] = max(0, ‖y_i‖₁ − ‖y_i − p_i(j)‖₁),  each row scaled to 1

y_i is what goes on of query i, p_i(j) the part of it that is from key j, the residual among them. A part that points
elsewhere than the whole counts for nothing, however large it is.
"""

from __future__ import annotations

import torch

from attnx.attention.levels import Block, Level
from attnx.graph.weighting import Weighting
from attnx.graph.weightings.parts import Parts, rows_or_own


def contributions(level: Level, start: int, stop: int) -> Block:
    """1 × query × key."""
    block = level.rows(start, stop)
    parts = Parts.of(level, "norm")
    whole = parts.outputs(block.weights, start, block.keys) / parts.row[start:stop, None]
    sign, twice = whole.sign(), 2 * whole.abs()
    found = block.weights.new_zeros(block.weights.shape[1:], dtype=torch.float64)
    for queries, keys, vectors in parts.vectors(block.weights, start, block.keys):
        # |y| − |y − p| is t where t = p · sign(y) is at most |y|, else 2|y| − t: no difference of two large sums.
        along = vectors.mul_(sign[queries])
        nearer = torch.minimum(along, twice[queries] - along).sum(-1)
        found[queries, keys] = nearer.T.double().clamp(min=0)
    return Block(block.first_key, rows_or_own(found, start, block.first_key)[None])


ALTI = Weighting(
    "alti",
    contributions,
    needs=frozenset({"blocks"}),
    residual="inside",
    per_head=False,
    paper="Ferrando et al. 2022",
    costs="one run, and a vector for each edge",
)
