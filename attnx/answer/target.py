"""What is explained: a part of the model's answer, alone or against another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from attnx.errors import ChoiceError

if TYPE_CHECKING:
    from torch import nn

    from attnx.answer.prediction import Prediction


@dataclass(frozen=True)
class Target:
    """Number `index` of the answer at `position`; with `against`, by how much it beats that other one."""

    index: int
    position: int
    """Where the answer is read in models that give one for each position."""
    against: int | None = None
    kind: str = ""
    """The row of `ANSWERS` that scores it; "" for the row that reads the model's output."""
    beside: tuple[float, ...] = ()
    """What that row needs to know besides (see `Prediction.beside`)."""

    @classmethod
    def of(cls, model: nn.Module, prediction: Prediction | None, position: int) -> Target:
        """What the prediction speaks of, in numbers; of a pair also what stands against it."""
        if prediction is None:
            raise ChoiceError(
                f"{type(model).__name__} predicts nothing, so there is nothing to hold attention against; "
                "load the model with its head (ForSequenceClassification, ForMaskedLM, …)"
            )
        return cls(prediction.index, position, prediction.against_index, prediction.kind, prediction.beside)
