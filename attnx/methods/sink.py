"""The attention sink: the first token of a decoder, which collects mass because attention must go somewhere.

A head with nothing to do gives its attention to the first position, the one that every query sees. That says nothing of
the token there. `drop_sink=True` hides the position as a key in every layer, before the residual: what went there goes
nowhere, as in models whose softmax has a sink of its own (gpt-oss), and the residual's part of the row grows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from attnx.errors import ChoiceError
from attnx.long_attention import LongAttention
from attnx.methods.choices import Head
from attnx.methods.question import Attention, Question


def sink_share(attention: Attention, *, layer: int | None = None, head: Head | None = None) -> Any:
    """The share of attention that goes to the first position, per layer: the mean over heads and over the later queries
    that see it.

    With `head="each"` it is layer × head. Spread evenly over n positions it would be the mean of 1/2, 1/3, … 1/n.

    >>> sink_share(np.array([[[[1.0, 0, 0], [0.9, 0.1, 0], [0.7, 0.2, 0.1]]]]))
    array([0.8])
    """
    if isinstance(attention, LongAttention):
        raise ChoiceError("the share of a sink needs attention held whole: attnx.capture(model, …)")
    question = Question.ask(attention, layer=layer, position=None, head=head, residual=0.0)
    sink = replace(question, drop_sink=True).sink
    seen = question.visible[:, :, sink].clone()
    seen[:, sink] = False
    if not bool(seen.any(1).all()):
        raise ChoiceError(f"no later position sees position {sink}, so there is no sink; give a longer input")
    given = [question.weights[layer - 1][:, seen[layer - 1], sink].double().mean(-1) for layer in question.layers]
    shares = torch.stack(given)[:, :, None, None]
    if isinstance(question.head, int):
        shares = shares[:, question.head : question.head + 1]
    elif question.head != "each":
        shares = shares.mean(1, keepdim=True)
    # The axes of one query and one input, which nobody asked for.
    return replace(question, drop_position=True).answer(shares)[..., 0]
