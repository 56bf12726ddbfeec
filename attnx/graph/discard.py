"""Attention without its noise: the lowest share of a layer's weights set to zero.

In vision transformers hundreds of patches each hold a little attention, and rolling all of it out buries the object.
What is left of a row is made to sum to 1 again, so that rollout stays a distribution.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attnx.attention.rows import rows_to_one


def discarded(weights: Tensor, share: float, spare: int | None = 0) -> Tensor:
    """… × query × key without the lowest `share` of each matrix's weights, by row summing to 1 again.

    Weights that tie with the lowest one that stays, stay. So does what any query gives to the position `spare`, CLS
    by default, through which the picture as a whole is passed on; None spares none.

    >>> discarded(torch.tensor([[0.5, 0.1, 0.4], [0.3, 0.6, 0.1], [0.1, 0.2, 0.7]]), 0.5)
    tensor([[0.5556, 0.0000, 0.4444],
            [0.3333, 0.6667, 0.0000],
            [0.1250, 0.0000, 0.8750]])
    """
    if share == 0:
        return weights
    flat = weights.detach().flatten(-2)
    lowest = flat.sort(-1).values[..., int(share * flat.shape[-1]), None, None]
    kept = weights.detach() >= lowest
    if spare is not None:
        kept[..., spare] = True
    return rows_to_one(torch.where(kept, weights, 0))
