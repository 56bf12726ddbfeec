"""The numbers of a model's head, as transformers returns them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from attnx.adapters import PreparedInput, has_head
from attnx.errors import ChoiceError, whole_number
from attnx.registry import unknown
from attnx.targets.prediction import Prediction


@dataclass(frozen=True)
class Target:
    """Number `index` of the answer at `position`; with `against`, by how much it beats that other one."""

    index: int
    position: int
    """Where the answer is read in models that give one for each position."""
    against: int | None = None
    kind: str = ""
    """The row of `HEAD_KINDS` that scores it; "" for the row that reads the model's output."""
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
    number = target
    if isinstance(target, str) and target.isdecimal() and len(target) <= len(str(len(labels))):
        number = int(target)
    if not isinstance(number, (str, bool)) and number in range(len(labels)):
        return int(number)
    raise ChoiceError(unknown("target", target, labels))


def token_index(target: Any, tokenizer: Any, size: int) -> int:
    """The id of a token that is given as text or by its id. Of a text of several tokens it is the first."""
    if not isinstance(target, str):
        index = whole_number("target", target)
        if 0 <= index < size:
            return index
        raise ChoiceError(f"target {index} is no token id of this vocabulary of {size}")
    ids = pieces_of(target, tokenizer)
    if not ids:
        raise ChoiceError(f"target {target!r} is no token at all; give a word, or a token id")
    unread = getattr(tokenizer, "unk_token_id", None)
    # In GPT-2 one token is both the unknown word and the end of the text, and no text is unknown.
    if ids[0] == unread and unread != getattr(tokenizer, "eos_token_id", None) and target != tokenizer.unk_token:
        raise ChoiceError(
            f"target {target!r} is not in the vocabulary, and would be read as {tokenizer.unk_token}; give a word that "
            "is, or a token id"
        )
    return ids[0]


def pieces_of(target: str, tokenizer: Any) -> list[int]:
    return [int(one) for one in tokenizer(target, add_special_tokens=False)["input_ids"]]


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


@dataclass(frozen=True, eq=False)
class HeadOutput:
    """What one input was answered, for a row to put into words."""

    model: nn.Module
    processor: Any
    logits: Tensor
    """Of this input alone, and of rows that answer at each position, at the explained one."""
    target: Any = None
    """As the caller named it; None for the best."""
    prepared: PreparedInput | None = None
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


def shift_target_position(target: Target, gone: Sequence[int]) -> Target:
    """The answer is read where its position has moved to; if it is gone itself, at the one before."""
    return replace(target, position=shifted_index(target.position, gone))


def shifted_index(place: int, gone: Sequence[int]) -> int:
    """Where a position stands when some are gone."""
    return max(0, place - sum(index <= place for index in gone))


@dataclass(frozen=True)
class HeadKind:
    """One kind of head. A plug-in's row has the rights of a built-in."""

    name: str
    logits: Callable[[nn.Module, Any], Tensor | None]
    """(model, output) → its numbers, the batch first; None where the model has no such head."""
    prediction: Callable[[HeadOutput], Prediction | None]
    """What it says of one input; None where these numbers are no answer."""
    score: Callable[[nn.Module, Tensor, Tensor, Score], Tensor]
    """(model, logits of a batch, targets as rows, which number) → one number for each input."""
    per_position: bool = False
    """Whether it answers at each position: logits are batch × position × class, and `score` gets the target's."""
    requires_target: bool = False
    """Whether a target alone asks for it, and no model answers so by itself."""
    scores: tuple[Score, ...] = SCORES
    """The numbers that its answers have; where a caller leaves open which, the first if the usual one is none."""
    recognized_by: Callable[[nn.Module], bool] = lambda model: False
    """Whether a model tells before it runs that it answers so; needed of rows that lack some scores."""
    moved: Callable[[Target, Sequence[int]], Target] = shift_target_position
    """(target, positions) → the target when these positions are taken out of the input."""
    notes: Callable[[HeadOutput, Prediction], tuple[str, ...]] = lambda told, prediction: ()
    """What the user should know of what is explained."""


LANGUAGE_MODELS = (
    *("ForMaskedLM", "ForCausalLM", "LMHeadModel"),
    *("ForConditionalGeneration", "MTModel", "EncoderDecoderModel"),
)


def head_output(model: nn.Module, output: Any) -> Tensor | None:
    """batch × class, or batch × position × class; a model may be set to return a tuple, in which they come first."""
    if has_head(model, "ForPreTraining"):
        return None
    logits = getattr(output, "logits", None)
    if logits is None and isinstance(output, tuple) and has_head(model, *LANGUAGE_MODELS, "Classification"):
        logits = output[0]
    return logits if isinstance(logits, Tensor) and logits.ndim in (2, 3) else None


def encoder_offset(output: Any) -> int:
    """How many positions stand before the first that is answered: those of an encoder–decoder's source."""
    states = getattr(output, "encoder_last_hidden_state", None)
    return 0 if states is None else int(states.shape[1])


def class_count(model: nn.Module) -> int:
    """So many classes as the config names; −1 where it names none."""
    count = getattr(model.config, "num_labels", -1)
    return count if isinstance(count, int) else -1


def class_names(model: nn.Module, count: int) -> tuple[str, ...]:
    names = getattr(model.config, "id2label", None) or {}
    return tuple(str(names.get(index, f"LABEL_{index}")) for index in range(count))


def problem_type(model: nn.Module) -> str | None:
    name = getattr(model.config, "problem_type", None)
    return name if isinstance(name, str) else None


def exclusive(model: nn.Module, classes: int) -> bool:
    """Whether just one class is true, so that probabilities share one sum."""
    return problem_type(model) != "multi_label_classification" and classes > 1
