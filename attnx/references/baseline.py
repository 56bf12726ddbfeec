"""Where a path of gradients starts: the input with nothing in it."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from attnx.adapters import adapter_for
from attnx.errors import ChoiceError
from attnx.references.attribution import Batch
from attnx.references.blank import choose_blank
from attnx.registry import unknown

Baseline: TypeAlias = Literal["blank", "zero"]
BASELINES: tuple[Baseline, ...] = ("blank", "zero")


def baseline(batch: Batch, model: nn.Module, processor: Any, name: Baseline) -> Tensor:
    """Of the shape of the batch's values. Special tokens stay, so that they are attributed nothing."""
    if name not in BASELINES:
        raise ChoiceError(unknown("baseline", name, BASELINES))
    if name == "blank":
        blank = choose_blank(model, adapter_for(model), processor, batch.cases[0].prepared, None)
        return batch.enter([blank.apply(case.prepared, case.content) for case in batch.cases])
    zero = batch.values.detach().clone()
    for row, case in enumerate(batch.cases):
        if case.prepared.boxes is None:
            zero[row, case.content] = 0
        else:
            zero[row] = torch.zeros_like(zero[row])
    return zero
