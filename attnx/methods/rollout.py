"""Attention rollout: relevance of the input as the product of all layers' attention with residual (§3.1).

Ã(1) = A(1) and Ã(i) = A(i) · Ã(i−1). For one query the product is a chain of vector–matrix products.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attnx.errors import ChoiceError
from attnx.methods.choices import Head
from attnx.methods.question import Attention, Question
from attnx.methods.receptive_field import Normalize, by_reach, rolled_everywhere


def rollout(
    attention: Attention,
    *,
    layer: int | None = None,
    position: int | Sequence[int] | None = None,
    head: Head | None = None,
    residual: float = 0.5,
    normalize: Normalize | None = None,
    drop_sink: bool = False,
    down_to: int = 1,
    discard: float = 0.0,
    spare: int | None = 0,
) -> Any:
    """How much of each input position reached each query, layer × query × input; every row sums to 1.

    `down_to` ends the product above the input: with `down_to=3` the last axis is what enters layer 3, and the layer
    axis begins at 3. With a `head`, that head alone stands in the layer of interest and the layers below keep their
    heads merged (Appendix A.1). For decoders `normalize` takes out what the mask alone gives early positions, and
    `drop_sink` what goes to the first token (see `receptive_field` and `sink`). `discard` drops that share of each
    layer's lowest weights, but none to the position `spare`, before they are rolled out: 0.9 is usual in vision
    transformers, whose rollout is noisy (see `discarded`).

    >>> rollout(np.full((2, 1, 2, 2), 0.5), layer=2, position=0)
    array([0.625, 0.375])
    """
    question = Question.ask(
        attention,
        layer=layer,
        position=position,
        head=head,
        residual=residual,
        normalize=normalize,
        drop_sink=drop_sink,
        discard=discard,
        spare=spare,
    )
    if not 1 <= down_to <= max(question.layers):
        raise ChoiceError(f"down_to={down_to} asked; it must be between 1 and the layer, {max(question.layers)}")
    depths = [one - down_to + 1 for one in question.layers if one >= down_to]
    roll = partial(_roll, down_to=down_to)
    relevance = by_reach(roll(question), question, reach=roll, everywhere=rolled_everywhere, depths=depths)
    return question.answer(relevance)


def _roll(question: Question, down_to: int) -> Tensor:
    layers = [layer for layer in question.layers if layer >= down_to]
    rows_are_few = len(layers) * len(question.positions) < question.length
    return (_roll_rows if rows_are_few else _roll_all)(question, layers, down_to)


def _roll_rows(question: Question, layers: list[int], down_to: int) -> Tensor:
    """All asked rows in one sweep from the top layer down: each layer's rows join the sweep where they start."""
    rows = question.positions
    length = question.length
    sweep = question.rows(max(layers)).reshape(-1, length)
    for layer in range(max(layers) - 1, down_to - 1, -1):
        sweep = question.pulled(sweep, layer)
        if layer in layers:
            sweep = torch.cat([question.rows(layer).reshape(-1, length), sweep])
    return sweep.view(len(layers), -1, len(rows), length)


def _roll_all(question: Question, layers: list[int], down_to: int) -> Tensor:
    """From the bottom up, keeping the rollout of the layers below."""
    rolled = []
    under: Tensor | None = None
    for layer in range(down_to, max(layers) + 1):
        if question.is_whole:
            under = question.pushed(layer, under)
            rolled += [under[None]] if layer in layers else []
            continue
        if layer in layers:
            top = question.rows(layer)
            rolled.append(top if under is None else top @ under)
        if layer < max(layers):
            under = question.pushed(layer, under)
    return torch.stack(rolled)
