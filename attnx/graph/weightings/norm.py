"""`norm`: how large what a key hands over is, not how much it is looked at (Kobayashi et al. 2020).

    N[i,j] = ‖ Σ_h A[h,i,j] W_O[h] v_h(j) ‖,  each row scaled to 1

Heads are summed before the norm, for they may cancel. Of one head it is A[h,i,j] · ‖W_O[h] v_h(j)‖. The residual is
not in it.
"""

from __future__ import annotations

from attnx.attention.levels import Block, Level
from attnx.attention.rows import rows_to_one
from attnx.graph.weighting import Weighting
from attnx.graph.weightings.parts import Parts


def norms_of_heads(level: Level, start: int, stop: int) -> Block:
    """head × query × key."""
    block = level.rows(start, stop)
    sizes = Parts.of(level).gram.diagonal(dim1=1, dim2=2).clamp(min=0).sqrt().T[:, None, block.keys]
    return Block(block.first_key, rows_to_one(block.weights.double() * sizes))


def norms(level: Level, start: int, stop: int) -> Block:
    """1 × query × key: all heads together."""
    block = level.rows(start, stop)
    return Block(block.first_key, rows_to_one(Parts.of(level).norms(block.weights, block.first_key))[None])


NORM = Weighting(
    "norm",
    norms_of_heads,
    together=norms,
    needs=frozenset({"blocks"}),
    paper="Kobayashi et al. 2020",
    costs="one run, and pairs of heads for each edge",
)
