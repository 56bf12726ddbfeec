"""What is explained: a class or a token of the model's answer, alone or against another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attnx.adapters.limits import vocabulary_size
from attnx.errors import ChoiceError
from attnx.registry import unknown

if TYPE_CHECKING:
    from torch import nn

    from attnx.prediction import Prediction


@dataclass(frozen=True)
class Target:
    """The class or token `index` of the answer at `position`; with `against`, by how much it beats that other one."""

    index: int
    position: int
    """Where the answer is read in models that give one for each position."""
    against: int | None = None

    @classmethod
    def of(cls, model: nn.Module, processor: Any, prediction: Prediction | None, position: int, asked: Any) -> Target:
        """What the user `asked` for, in numbers: the prediction itself, or for a pair also what stands against it."""
        if prediction is None:
            raise ChoiceError(
                f"{type(model).__name__} predicts nothing, so there is nothing to hold attention against; "
                "load the model with its head (ForSequenceClassification, ForMaskedLM, …)"
            )
        _, other = split(asked)
        if other is None:
            return cls(prediction.index, position)
        if prediction.kind == "token":
            against = token_index(other, processor, vocabulary_size(model) or 0)
        else:
            against = class_index(other, prediction.labels)
        if against == prediction.index:
            raise ChoiceError(f"target {asked!r} sets {prediction.label!r} against itself; give two different ones")
        return cls(prediction.index, position, against)


def split(asked: Any) -> tuple[Any, Any]:
    """What is explained, and what it stands against: None unless the user gave a pair."""
    if not isinstance(asked, (tuple, list)):
        return asked, None
    if len(asked) != 2:
        raise ChoiceError(f"target {asked!r} has {len(asked)} parts; give one, or a pair: the second is set against")
    return asked[0], asked[1]


def class_index(target: Any, labels: tuple[str, ...]) -> int:
    """The number of a class that is given by its label, in any case, or by its number.

    A text is a label first: star ratings are called "1" to "5" and numbered 0 to 4.
    """
    lowered = [label.lower() for label in labels]
    if target in labels:
        return labels.index(target)
    if isinstance(target, str) and target.lower() in lowered:
        return lowered.index(target.lower())
    if str(target).isdecimal() and int(target) < len(labels):
        return int(target)
    raise ChoiceError(unknown("target", target, labels))


def token_index(target: Any, tokenizer: Any, size: int) -> int:
    """The id of a token that is given as text or by its id."""
    if not isinstance(target, str):
        if 0 <= target < size:
            return int(target)
        raise ChoiceError(f"target {target} is no token id of this vocabulary of {size}")
    ids = tokenizer(str(target), add_special_tokens=False)["input_ids"]
    if len(ids) != 1:
        pieces = " ".join(tokenizer.convert_ids_to_tokens(ids))
        raise ChoiceError(f"target {target!r} is {len(ids)} tokens here ({pieces}); give one token, or its id")
    return int(ids[0])
