"""`norm_residual` and `globenc`: the norm of each part with the residual in it, behind the block's norms.

    N[i,j] = ‖ L_i(T_i(j) + [i = j] x_i) ‖

T_i(j) is what key j hands to query i, x_i the state that the residual keeps, L_i the norm behind their sum with its
scale frozen; none in pre-LN models, where the sum goes on as it is. `norm_residual` (Kobayashi et al. 2021) goes
through that norm and scales each row to 1. `globenc` (Modarressi et al. 2022) goes through the one at the end of the
block as well, and leaves rows as they are; in pre-LN models, which have neither norm on the stream, it is the same as
`norm_residual`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attnx.attention.levels import Block, Level
from attnx.graph.weighting import Weighting
from attnx.graph.weightings.parts import Parts, rows_or_own


def norms_with_residual(level: Level, start: int, stop: int) -> Block:
    """1 × query × key, each row summing to 1."""
    block = level.rows(start, stop)
    found = _norms(Parts.of(level, "norm"), block, start)
    return Block(block.first_key, rows_or_own(found, start, block.first_key)[None])


def norms_of_encoder(level: Level, start: int, stop: int) -> Block:
    """1 × query × key, as they are."""
    if "norm.gain" not in level.brought:
        return norms_with_residual(level, start, stop)
    block = level.rows(start, stop)
    return Block(block.first_key, _norms(Parts.of(level, "norm", "last"), block, start)[None])


def _norms(parts: Parts, block: Block, start: int) -> Tensor:
    """query × key: ‖p_i(j)‖."""
    rows = slice(start, start + block.weights.shape[1])
    found = parts.row[rows, None].double() * parts.norms(block.weights, block.first_key)
    queries = torch.arange(rows.start, rows.stop, device=found.device)
    places = queries - block.first_key
    inside = (places >= 0) & (places < found.shape[1])
    queries, places, here = queries[inside], places[inside], inside.nonzero()[:, 0]
    # ‖T + x‖² = ‖T‖² + 2 T·x + ‖x‖² where a query hands to itself.
    own = parts.own[queries].double().square().sum(-1)
    given = block.weights[:, here, places].double().T
    both = 2 * parts.row[queries].double() * (given * parts.with_own[queries]).sum(-1)
    found[here, places] = (found[here, places].square() + both + own).clamp(min=0).sqrt()
    return found


NORM_RESIDUAL = Weighting(
    "norm_residual",
    norms_with_residual,
    needs=frozenset({"blocks"}),
    residual="inside",
    per_head=False,
    paper="Kobayashi et al. 2021",
    costs="one run, and pairs of heads for each edge",
)
GLOBENC = Weighting(
    "globenc",
    norms_of_encoder,
    needs=frozenset({"blocks"}),
    residual="inside",
    per_head=False,
    in_streams=False,
    paper="Modarressi et al. 2022",
    costs="one run, and pairs of heads for each edge",
)
