"""Raw attention: each layer's own weights, heads merged, no residual. The first row of the paper's tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from attnx.methods.question import Attention, Head, Question


def raw(
    attention: Attention,
    *,
    layer: int | None = None,
    position: int | Sequence[int] | None = None,
    head: Head | None = None,
    residual: float = 0.0,
) -> Any:
    """What each query attends to in each layer, taken alone: layer × query × key.

    Above the first layers a key is no longer the token at its position but a mixture of tokens, so this is not yet
    relevance of the input; `rollout` and `flow` trace it back.

    >>> raw(np.full((1, 2, 3, 3), 1 / 3), layer=1, position=0)
    array([0.33333333, 0.33333333, 0.33333333])
    """
    question = Question.ask(attention, layer=layer, position=position, head=head, residual=residual)
    return question.answer(torch.stack([question.rows(layer) for layer in question.layers]))
