"""A kind of head is a frozen row: what it makes of the model's output, what it says, and the score of a target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from attnx.answer.named import split
from attnx.answer.number import SCORES, Score
from attnx.answer.prediction import Prediction
from attnx.answer.target import Target
from attnx.errors import ChoiceError
from attnx.inputs.adapter import Prepared


@dataclass(frozen=True, eq=False)
class Told:
    """What one input was answered, for a row to put into words."""

    model: nn.Module
    processor: Any
    logits: Tensor
    """Of this input alone, and of rows that answer at each position, at the explained one."""
    target: Any = None
    """As the caller named it; None for the best."""
    prepared: Prepared | None = None
    """The input; None where only its tensors are known."""

    def chosen(self, logits: Tensor, index_of: Callable[[Any], int]) -> tuple[int, int | None]:
        """What is explained, by default the best, and what it is set against."""
        asked, other = split(self.target)
        index = int(logits.argmax()) if asked is None else index_of(asked)
        return index, self.rival(index, None if other is None else index_of(other))

    def best_probability(self, index: int, shares: Tensor) -> float | None:
        """The probability of the prediction, where `index` is another target; else None."""
        best = int(shares.argmax())
        return None if shares[index] == shares[best] else shares[best].item()

    def rival(self, index: int, other: int | None) -> int | None:
        """What the target is set against, which must not be itself."""
        if other == index:
            raise ChoiceError(f"target {self.target!r} sets one answer against itself; give two different ones")
        return other


def position_moved(target: Target, gone: Sequence[int]) -> Target:
    """The answer is read where its position has moved to; if it is gone itself, at the one before."""
    return replace(target, position=place_after(target.position, gone))


def place_after(place: int, gone: Sequence[int]) -> int:
    """Where a position stands when some are gone."""
    return max(0, place - sum(one <= place for one in gone))


@dataclass(frozen=True)
class AnswerKind:
    """One kind of head. A plug-in's row has the rights of a built-in."""

    name: str
    logits: Callable[[nn.Module, Any], Tensor | None]
    """(model, output) → its numbers, the batch first; None where the model has no such head."""
    prediction: Callable[[Told], Prediction | None]
    """What it says of one input; None where these numbers are no answer."""
    score: Callable[[nn.Module, Tensor, Tensor, Score], Tensor]
    """(model, logits of a batch, targets as rows, which number) → one number for each input."""
    at_each: bool = False
    """Whether it answers at each position: logits are batch × position × class, and `score` gets the target's."""
    by_target: bool = False
    """Whether a target alone asks for it, and no model answers so by itself."""
    scores: tuple[Score, ...] = SCORES
    """The numbers that its answers have; where a caller leaves open which, the first if the usual one is none."""
    known_by: Callable[[nn.Module], bool] = lambda model: False
    """Whether a model tells before it runs that it answers so; needed of rows that lack some scores."""
    moved: Callable[[Target, Sequence[int]], Target] = position_moved
    """(target, positions) → the target when these positions are taken out of the input."""
    notes: Callable[[Told, Prediction], tuple[str, ...]] = lambda told, prediction: ()
    """What the user should know of what is explained."""
