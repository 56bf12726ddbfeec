"""Where a path into Captum begins: the input with nothing at its content positions."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from attnx.errors import ChoiceError
from attnx.inputs.families import adapter_for
from attnx.references.attribution import Batch
from attnx.references.blank import Named, choose_blank
from attnx.registry import unknown

Start: TypeAlias = Literal["blank", "zero"]
STARTS: tuple[Start, ...] = ("blank", "zero")


def baseline(
    batch: Batch, model: nn.Module, processor: Any, start: Start, named: Named = None
) -> tuple[Tensor, dict[str, float | str]]:
    """Of the shape of the batch's values, and which blank it is; `named` is the caller's.

    Special tokens stay, so that they are attributed nothing.
    """
    if start not in STARTS:
        raise ChoiceError(unknown("baseline", start, STARTS))
    if start == "zero":
        return _zero(batch), {}
    blank = choose_blank(model, adapter_for(model), processor, batch.cases[0].prepared, named)
    if blank.shortens:
        raise ChoiceError(
            f"a path cannot begin at a text of another length, and {type(model).__name__} has no other blank: give "
            "blank= a token, blank='mean', or start='zero'"
        )
    return batch.enter([blank.apply(case.prepared, case.content) for case in batch.cases]), {"blank": blank.name}


def _zero(batch: Batch) -> Tensor:
    zero = batch.values.detach().clone()
    for row, case in enumerate(batch.cases):
        if case.prepared.boxes is None and case.prepared.heard is None:
            zero[row, case.content] = 0
        else:
            zero[row] = torch.zeros_like(zero[row])
    return zero
