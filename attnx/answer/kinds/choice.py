"""One of several texts: multiple choice. Each choice is an input of its own, read without the others.

The model gives each a number, and the choices share one softmax. So the words of a choice can do nothing to the numbers
of the others: these stand fixed beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attnx.answer.kind import AnswerKind, Told
from attnx.answer.named import class_index
from attnx.answer.number import NOTHING, Score, wide
from attnx.answer.prediction import Prediction
from attnx.errors import InputError
from attnx.inputs.model_facts import has_head

CHOICES = "ForMultipleChoice"


@dataclass(frozen=True)
class AmongChoices:
    """A choice as target: its number, and what the model gave to all."""

    index: int
    labels: tuple[str, ...]
    logits: tuple[float, ...]
    against: int | None = None

    @classmethod
    def of(cls, labels: tuple[str, ...], logits: tuple[float, ...], target: Any = None) -> AmongChoices:
        """The best, or the choice that a caller named by its text or its number, or a pair of them."""
        told = Told(nn.Module(), None, torch.tensor(logits, dtype=torch.float64), target)
        index, rival = told.chosen(told.logits, lambda one: class_index(one, labels))
        return cls(index, labels, logits, rival)


def _logits(model: nn.Module, output: Any) -> Tensor | None:
    """batch × 1: the number of each choice."""
    if not has_head(model, CHOICES):
        return None
    logits = output[0] if isinstance(output, tuple) else getattr(output, "logits", None)
    return logits if isinstance(logits, Tensor) and logits.ndim == 2 else None


def _prediction(told: Told) -> Prediction:
    among = told.target
    if not isinstance(among, AmongChoices):
        raise InputError(
            f"{type(told.model).__name__} chooses among several texts; give a text and its choices: (text, [choice, …])"
        )
    logits = torch.tensor(among.logits, dtype=torch.float64)
    others = torch.cat((logits[: among.index], logits[among.index + 1 :]))
    shares = logits.softmax(0)
    rival = float("nan") if among.against is None else float(logits[among.against])
    return Prediction(
        "choice",
        among.labels[among.index],
        among.index,
        float(shares[among.index]),
        among.labels,
        among.logits,
        None if among.against is None else among.labels[among.against],
        among.against,
        beside=(float(others.mean()), float(others.logsumexp(0)), 0.0 if among.against is None else rival),
        predicted_probability=told.best_probability(among.index, shares),
    )


def _score(model: nn.Module, logits: Tensor, targets: Tensor, kind: Score) -> Tensor:
    """Columns 3 to 5 are the mean of the other choices' logits, their log-sum-exp, and that of the one against."""
    own, alone = wide(logits)[:, 0], targets[:, 2] == NOTHING
    mean, rest, rival = targets[:, 3:6].to(own.dtype).unbind(1)
    if kind == "probability":
        shares = torch.sigmoid(own - rest)
        # The one against has its share of what is left, whoever else there is.
        return torch.where(alone, shares, shares - (1 - shares) * (rival - rest).exp())
    if kind == "log_odds":
        without = rest + torch.log1p(-(rival - rest).exp().clamp_max(1))  # the others but for the one against
        return own - rest - torch.where(alone, 0.0, rival - torch.logaddexp(own, without))
    return own - torch.where(alone, mean if kind == "margin" else 0 * mean, rival)


def _notes(told: Told, prediction: Prediction) -> tuple[str, ...]:
    others = len(prediction.labels) - 1
    return (
        f"choice {prediction.index} of 0 to {others}: the model reads each by itself, so this is about the words of "
        "this one, the numbers of the others held as they are; target=… explains another",
    )


CHOICE = AnswerKind("choice", logits=_logits, prediction=_prediction, score=_score, notes=_notes)
