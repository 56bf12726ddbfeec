"""Attention flow for any layer, query position and head."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnx.methods.flow.reference import flow_row
from attnx.methods.question import Attention, Head, Question


def flow(
    attention: Attention,
    *,
    layer: int | None = None,
    position: int | None = None,
    head: Head | None = None,
    residual: float = 0.5,
) -> Any:
    """The maximum flow from each hidden position down to each input position, layer × query × input.

    A value is at most 1 and a row does not sum to 1. With a `head`, that head alone gives the capacities of the layer
    of interest and the layers below keep their heads merged (Appendix A.1).
    """
    question = Question.ask(attention, layer=layer, position=position, head=head, residual=residual)
    rows = [
        flow_row(_capacities(question, layer, top).numpy(), position)
        for layer in question.layers
        for top in question.top(layer)
        for position in question.positions
    ]
    heads = question.top(question.layers[0]).shape[0]
    shape = (len(question.layers), heads, len(question.positions), question.length)
    return question.answer(torch.tensor(rows, dtype=torch.float64).view(shape))


def _capacities(question: Question, layer: int, top: Tensor) -> Tensor:
    """layer × query × key: the layers below with heads merged, and the layer of interest on top."""
    return torch.cat([question.below[: layer - 1], top[None]]).detach().cpu()
