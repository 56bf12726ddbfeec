"""What is explained: a class or a token of the model's answer, alone or against another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attnx.adapters.limits import vocabulary_size
from attnx.errors import ChoiceError
from attnx.methods.choices import whole_number
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
    """The id of a token that is given as text or by its id. Of a text of several tokens it is the first."""
    if not isinstance(target, str):
        index = whole_number("target", target)
        if 0 <= index < size:
            return index
        raise ChoiceError(f"target {index} is no token id of this vocabulary of {size}")
    ids = _pieces(target, tokenizer)
    if not ids:
        raise ChoiceError(f"target {target!r} is no token at all; give a word, or a token id")
    return ids[0]


def piece_notes(asked: Any, prediction: Prediction | None, tokenizer: Any) -> tuple[str, ...]:
    """What a user must know of a target that is more than one token: only the first is explained."""
    if prediction is None or prediction.kind != "token":
        return ()
    notes = []
    for target in split(asked):
        ids = _pieces(target, tokenizer) if isinstance(target, str) else []
        if len(ids) > 1:
            pieces = " ".join(tokenizer.convert_ids_to_tokens(ids))
            notes.append(
                f"target {target!r} is {len(ids)} tokens here ({pieces}): the first is explained; of a decoder, "
                f"explain_generation(…, continuation={target!r}) explains all"
            )
    return tuple(notes)


def _pieces(target: str, tokenizer: Any) -> list[int]:
    return [int(one) for one in tokenizer(target, add_special_tokens=False)["input_ids"]]
