"""Raw attention: each layer's own weights, heads merged, no residual. The first row of the paper's tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from attnx.methods.choices import Head
from attnx.methods.question import Attention, Question
from attnx.methods.receptive_field import Normalize, by_reach, rolled_everywhere


def raw(
    attention: Attention,
    *,
    layer: int | None = None,
    position: int | Sequence[int] | None = None,
    head: Head | None = None,
    residual: float = 0.0,
    normalize: Normalize | None = None,
    drop_sink: bool = False,
) -> Any:
    """What each query attends to in each layer, taken alone: layer × query × key.

    Above the first layers a key is no longer the token at its position but a mixture of tokens, so this is not yet
    relevance of the input; `rollout` and `flow` trace it back.

    A query's even attention is the same for all that it sees, so `normalize="receptive_field"` leaves raw attention as
    it is; `"column"` does not. `drop_sink` leaves out what goes to the first token of a decoder.

    >>> raw(np.full((1, 2, 3, 3), 1 / 3), layer=1, position=0)
    array([0.33333333, 0.33333333, 0.33333333])
    """
    question = Question.ask(
        attention,
        layer=layer,
        position=position,
        head=head,
        residual=residual,
        normalize=normalize,
        drop_sink=drop_sink,
    )
    alone = [1] * len(question.layers)
    relevance = by_reach(_layers(question), question, reach=_layers, everywhere=rolled_everywhere, depths=alone)
    return question.answer(relevance)


def _layers(question: Question) -> Tensor:
    return torch.stack([question.rows(layer) for layer in question.layers])
