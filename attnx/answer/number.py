"""Which number of an answer is taken, and its arithmetic on logits of which one is true, or each by itself."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor

Score: TypeAlias = Literal["logit", "margin", "probability", "log_odds", "cosine"]
SCORES: tuple[Score, ...] = ("logit", "margin", "probability", "log_odds")
"""Those of a head that predicts; an embedding has its cosine."""

NOTHING = -1
"""Stands against a target that stands alone, where it travels as a number."""


def number_of(logits: Tensor, index: Tensor, against: Tensor, kind: Score, *, exclusive: bool) -> Tensor:
    """One number for each row of batch × class: that of `index`, with `against` the difference of the two.

    The margin is the logit above the mean of all others, or above the one that it stands against. Of classes that are
    `exclusive` one is true; others may all be.
    """
    logits = wide(logits)
    if kind == "margin":
        return _margin(logits, index, against, exclusive)
    wanted = _values(logits, kind, index, exclusive)
    other = _values(logits, kind, against.clamp_min(0), exclusive)
    return wanted - torch.where(against == NOTHING, 0.0, other)


def probabilities(logits: Tensor, *, exclusive: bool) -> Tensor:
    """As transformers' pipelines have it: softmax, or a sigmoid each for labels that may all be true."""
    return logits.softmax(-1) if exclusive else logits.sigmoid()


def wide(logits: Tensor) -> Tensor:
    return logits if logits.dtype == torch.float64 else logits.float()


def _margin(logits: Tensor, index: Tensor, against: Tensor, exclusive: bool) -> Tensor:
    """Logits that share a constant say nothing by it, so it is taken out; labels that may all be true share none."""
    chosen = logits.gather(1, index[:, None])[:, 0]
    rival = logits.gather(1, against.clamp_min(0)[:, None])[:, 0]
    others = (logits.sum(1) - chosen) / (logits.shape[1] - 1) if exclusive else 0 * chosen
    return chosen - torch.where(against == NOTHING, others, rival)


def _values(logits: Tensor, kind: Score, index: Tensor, exclusive: bool) -> Tensor:
    """The number of class `index` of each row."""
    column = index[:, None]
    chosen = logits.gather(1, column)[:, 0]
    if kind == "logit":
        return chosen
    if kind == "probability":
        return probabilities(logits, exclusive=exclusive).gather(1, column)[:, 0]
    if not exclusive:
        return chosen
    # Against the sum of all others, not log(p / (1 − p)): a confident model's p rounds to 1.
    return chosen - logits.scatter(1, column, -torch.inf).logsumexp(1)
