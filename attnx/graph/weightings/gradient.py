"""`gradient`: attention times what the answer would gain by more of it (Chefer et al. 2021).

    Ā[h,i,j] = max(0, A[h,i,j] · ∂s/∂A[h,i,j]),   ∂s/∂A[h,i,j] = ∂s/∂o_h(i) · v_h(j)

s is the score that is explained, o_h(i) what head h gives query i. So no attention map needs a gradient of its own.
Rows are left as they are, and the residual is added: R ← R + Ā R. `gradient_share` has rows of 1, to be mixed with the
residual by a share, as flow needs it; a row of zeros is all residual. `gradient_signed` leaves the maximum out: below
0 is what speaks against the answer. A product of two layers makes two against one for, so beyond one layer its sign is
to be read with care.
"""

from __future__ import annotations

import torch

from attnx.attention.levels import Block, Level
from attnx.attention.rows import rows_to_one
from attnx.errors import AttentionError
from attnx.graph.weighting import Weighting
from attnx.graph.weightings.parts import values_of


def gains(level: Level, start: int, stop: int) -> Block:
    """head × query × key, in float64: A ∘ ∂s/∂A, below 0 where attention speaks against the answer."""
    if "gradient" not in level.brought:
        raise AttentionError(
            "these edges need the gradient of an answer, which attention alone does not have: ask attnx.explain for "
            "the method, with a model that has a head"
        )
    block = level.rows(start, stop)
    gradient = level.brought["gradient"][:, start:stop].double()
    gain = gradient @ values_of(level)[:, block.keys].double().transpose(1, 2)
    return Block(block.first_key, block.weights.double() * gain)


def positive_gains(level: Level, start: int, stop: int) -> Block:
    """head × query × key."""
    block = gains(level, start, stop)
    return Block(block.first_key, block.weights.clamp(min=0))


def shares_of_heads(level: Level, start: int, stop: int) -> Block:
    """head × query × key, rows of 1."""
    block = positive_gains(level, start, stop)
    return Block(block.first_key, rows_to_one(block.weights))


def shares(level: Level, start: int, stop: int) -> Block:
    """1 × query × key, rows of 1: heads that the answer does not hang on weigh less."""
    block = positive_gains(level, start, stop)
    return Block(block.first_key, rows_to_one(torch.mean(block.weights, 0, keepdim=True)))


def _there_and_back(positions: int) -> float:
    return 2.0


GRADIENT = Weighting(
    "gradient",
    positive_gains,
    needs=frozenset({"values"}),
    residual="added",
    about_answer=True,
    paper="Chefer et al. 2021",
    costs="one run, and a way back through it for each answer",
    forwards=_there_and_back,
)
GRADIENT_SIGNED = Weighting(
    "gradient_signed",
    gains,
    needs=frozenset({"values"}),
    residual="added",
    signed=True,
    about_answer=True,
    in_streams=False,
    paper="Chefer et al. 2021, with signs",
    costs="one run, and a way back through it for each answer",
    forwards=_there_and_back,
)
GRADIENT_SHARE = Weighting(
    "gradient_share",
    shares_of_heads,
    together=shares,
    needs=frozenset({"values"}),
    about_answer=True,
    paper="Chefer et al. 2021",
    costs="one run, and a way back through it for each answer",
    forwards=_there_and_back,
)
