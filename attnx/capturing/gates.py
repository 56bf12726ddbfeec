"""What happens to mixed values before the output projection: nothing, a gate, or something that is not followed.

Values and a projection say what a block wrote only if the sum over heads and keys is what entered the projection. Many
models multiply it by a gate first, `attn_output * sigmoid(gate)`. So the sum is held against what entered on every run;
factors that were seen on the way make the gate, and anything else is a reason not to give values at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

import torch
from torch import Tensor

GATING = {"mul", "__mul__"}
"""Names of the functions by which a gate is applied."""


def factor(by: Any, result: Tensor) -> Tensor:
    """What mixed values were multiplied by, as large as they are."""
    return (by if isinstance(by, Tensor) else result.new_tensor(by)).expand_as(result)


def gate(mixed: Tensor, entered: Tensor, factors: Sequence[Tensor], slack: float) -> Tensor | None:
    """batch × head × query × width, so that `gate · mixed` is what entered the projection; None if nothing is.

    `mixed` is batch × head × query × width, `entered` has all heads in its last axis. A factor was seen in the layout
    of its moment, with heads before or behind queries: the one that fits is right.
    """
    batch, heads, queries, width = mixed.shape
    if entered.numel() != mixed.numel() or entered.shape[-1] != heads * width:
        return None
    wanted = entered.detach().reshape(batch, queries, heads, width).transpose(1, 2).to(mixed.dtype)
    for readings in product(*(list(_readings(one, mixed)) for one in factors)):
        found = prod(readings, start=mixed.new_ones(1, 1, 1, 1)).expand_as(mixed)
        if torch.allclose(mixed * found.detach(), wanted, rtol=0, atol=slack * (1 + float(wanted.abs().amax()))):
            return found
    return None


def _readings(factor: Tensor, mixed: Tensor) -> Iterator[Tensor]:
    """The factor as batch × head × query × width, if it came by queries or by heads."""
    batch, heads, queries, width = mixed.shape
    if factor.numel() == mixed.numel():
        factor = factor.to(mixed.dtype)
        yield factor.reshape(batch, queries, heads, width).transpose(1, 2)
        yield factor.reshape(batch, heads, queries, width)
