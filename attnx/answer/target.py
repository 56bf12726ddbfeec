"""What is explained: a class or a token of the model's answer, alone or against another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attnx.answer.named import pieces_of, split
from attnx.errors import ChoiceError

if TYPE_CHECKING:
    from torch import nn

    from attnx.answer.prediction import Prediction


@dataclass(frozen=True)
class Target:
    """The class or token `index` of the answer at `position`; with `against`, by how much it beats that other one."""

    index: int
    position: int
    """Where the answer is read in models that give one for each position."""
    against: int | None = None

    @classmethod
    def of(cls, model: nn.Module, prediction: Prediction | None, position: int) -> Target:
        """What the prediction speaks of, in numbers; of a pair also what stands against it."""
        if prediction is None:
            raise ChoiceError(
                f"{type(model).__name__} predicts nothing, so there is nothing to hold attention against; "
                "load the model with its head (ForSequenceClassification, ForMaskedLM, …)"
            )
        return cls(prediction.index, position, prediction.against_index)


def piece_notes(asked: Any, prediction: Prediction | None, tokenizer: Any) -> tuple[str, ...]:
    """What a user must know of a target that is more than one token: only the first is explained."""
    if prediction is None or prediction.kind != "token":
        return ()
    notes = []
    for target in split(asked):
        ids = pieces_of(target, tokenizer) if isinstance(target, str) else []
        if len(ids) > 1:
            pieces = " ".join(tokenizer.convert_ids_to_tokens(ids))
            notes.append(
                f"target {target!r} is {len(ids)} tokens here ({pieces}): the first is explained; of a decoder, "
                f"explain_generation(…, continuation={target!r}) explains all"
            )
    return tuple(notes)
