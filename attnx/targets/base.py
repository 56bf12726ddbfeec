"""What a model predicts, the target that is explained, and how each kind of head is read and scored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from attnx.adapters import PreparedInput, has_head
from attnx.errors import LINE_BREAK, ChoiceError, whole_number
from attnx.registry import unknown

"""Fields that older files lack; reading results depends on it."""

SPACE = "␣"
_JOINERS = "\u200c\u200d"
"""Of which emoji and Persian words are made."""

_NOUNS = {
    "label": "one of {} labels that may all hold",
    "value": "value",
    "span": "answer",
    "choice": "choice",
    "tag": "tag",
    "similarity": "cosine",
}
"""What an output is called in a headline, where it is not called a prediction."""


@dataclass(frozen=True)
class Prediction:
    """What the model predicts, and the target that is explained: `label`, the prediction unless a caller chose.

    >>> labels, logits = ("NEGATIVE", "POSITIVE"), (-3.0, 3.0)
    >>> print(Prediction("class", "POSITIVE", 1, 0.998, labels, logits))
    POSITIVE (0.998)
    >>> print(Prediction("class", "NEGATIVE", 0, 0.002, labels, logits, predicted_probability=0.998))
    POSITIVE (0.998); target NEGATIVE (0.002)
    """

    kind: str
    """The row of `HEAD_KINDS` that read it: class, label, value, token, tag, span, choice, …"""
    label: str
    """The target: the prediction, or what the caller chose to explain."""
    index: int
    """Of a class, a tag or a choice its number from 0, of a token its id, of a span its number (see `span`)."""
    probability: float | None
    """None for a regression, which has a value and no probability."""
    labels: tuple[str, ...]
    logits: tuple[float, ...]
    """One for each of `labels`: all classes, or the best tokens of the vocabulary, or the best spans."""
    against: str | None = None
    """Of a pair, what `label` is compared with: scores that depend on the target are about the margin."""
    against_index: int | None = None
    span: tuple[int, int] | None = None
    """Of an answer that stands in the text, its first and its last position."""
    beside: tuple[float, ...] = ()
    """What its score depends on beside the model's own numbers: where spans may lie, what other choices have."""
    predicted_probability: float | None = None
    """That of `predicted`, where the caller chose another target; None where the target is the prediction."""

    @property
    def predicted(self) -> str:
        """What the model predicts, whichever target is explained."""
        if self.probability is None or not self.labels:
            return self.label
        highest = max(self.logits)
        best = [label for label, logit in zip(self.labels, self.logits, strict=True) if logit == highest]
        return self.label if not best or self.label in best else best[0]

    @property
    def certainty(self) -> float | None:
        """The probability of what the model predicts; None where it has none, or an older file lacks it."""
        return self.probability if self.predicted == self.label else self.predicted_probability

    @property
    def answer(self) -> str:
        """The prediction with its probability, on one line."""
        return one_line(self.predicted) + _in_brackets(self.certainty)

    @property
    def target(self) -> str | None:
        """The target with its probability, and what it is compared with; None where the prediction alone is
        explained."""
        if self.predicted == self.label and self.against is None:
            return None
        name = one_line(self.label) + ("" if self.predicted == self.label else _in_brackets(self.probability))
        return name if self.against is None else f"{name} against {one_line(self.against).strip()}"

    @property
    def noun(self) -> str:
        """What it is, in a headline."""
        return _NOUNS.get(self.kind, "prediction").format(len(self.labels))

    @property
    def named(self) -> Any:
        """How the same is requested of another text: as `target` of `explain`."""
        name, rival = (self.index, self.against_index) if self.span is None else (self.label, self.against)
        return name if rival is None else (name, rival)

    @property
    def contrast(self) -> str:
        """What is explained, in a heading: a class or a token, of a pair with what it is compared with."""
        name = (self.labels[self.index] if self.kind == "value" else self.label).strip()
        return name if self.against is None else f"{name} against {self.against.strip()}"

    def __str__(self) -> str:
        return self.answer if self.target is None else f"{self.answer}; target {self.target}"


def one_line(text: str) -> str:
    """Text of the input or of a model on one line: a line break has its symbol, and nothing controls a terminal.

    >>> one_line("a\\nb\\x1b")
    'a⏎b�'
    """
    return "".join(
        LINE_BREAK if name == "\n" else name if name.isprintable() or name in _JOINERS else "�" for name in text
    )


def visible(text: str) -> str:
    """The same, without space around it; white space alone by its symbols, as on the page.

    >>> visible(" key"), visible("\\n"), visible(" ")
    ('key', '⏎', '␣')
    """
    return one_line(text.strip()) if text.strip() else one_line(text).replace(" ", SPACE)


def _in_brackets(probability: float | None) -> str:
    return "" if probability is None else f" ({probability:.3f})"


@dataclass(frozen=True)
class Target:
    """Number `index` of the output at `position`; with `against`, by how much it beats that other one."""

    index: int
    position: int
    """Where the output is read in models that have one for each position."""
    against: int | None = None
    kind: str = ""
    """The row of `HEAD_KINDS` that scores it; "" for the row that reads the model's output."""
    beside: tuple[float, ...] = ()
    """What that row needs besides (see `Prediction.beside`)."""

    @classmethod
    def of(cls, model: nn.Module, prediction: Prediction | None, position: int) -> Target:
        """The target of a prediction, in numbers; of a pair also what it is compared with."""
        if prediction is None:
            raise ChoiceError(
                f"{type(model).__name__} predicts nothing, so there is nothing to hold attention against; "
                "load the model with its head (ForSequenceClassification, ForMaskedLM, …)"
            )
        return cls(prediction.index, position, prediction.against_index, prediction.kind, prediction.beside)


def split(target: Any) -> tuple[Any, Any]:
    """What is explained, and what it is compared with: None unless the user gave a pair."""
    if not isinstance(target, (tuple, list)):
        return target, None
    if len(target) != 2:
        raise ChoiceError(f"target {target!r} has {len(target)} parts; give one, or a pair: the second is set against")
    return target[0], target[1]


def class_index(target: Any, labels: tuple[str, ...]) -> int:
    """The number of a class that is given by its label, in any case, or by its number.

    A text is a label first: star ratings are called "1" to "5" and numbered 0 to 4.
    """
    if target in labels:
        return labels.index(target)
    lowered = [label.lower() for label in labels]
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
    ids = token_ids(target, tokenizer)
    if not ids:
        raise ChoiceError(f"target {target!r} is no token at all; give a word, or a token id")
    unk = getattr(tokenizer, "unk_token_id", None)
    # In GPT-2 one token is both the unknown word and the end of the text, and no text is unknown.
    if ids[0] == unk and unk != getattr(tokenizer, "eos_token_id", None) and target != tokenizer.unk_token:
        raise ChoiceError(
            f"target {target!r} is not in the vocabulary, and would be read as {tokenizer.unk_token}; give a word that "
            "is, or a token id"
        )
    return ids[0]


def token_ids(target: str, tokenizer: Any) -> list[int]:
    return [int(token) for token in tokenizer(target, add_special_tokens=False)["input_ids"]]


Score: TypeAlias = Literal["logit", "margin", "probability", "log_odds", "cosine"]
SCORES: tuple[Score, ...] = ("logit", "margin", "probability", "log_odds")
"""Those of a head that predicts; an embedding has its cosine."""

NOTHING = -1
"""Stands for `against` of a target that stands alone, where it travels as a number."""


def score_of(logits: Tensor, index: Tensor, against: Tensor, kind: Score, *, exclusive: bool) -> Tensor:
    """One number for each row of batch × class: that of `index`, with `against` the difference of the two.

    The margin is the logit above the mean of all others, or above the one that it is compared with. Of classes that are
    `exclusive` one is true; others may all be.
    """
    logits = wide(logits)
    target = _values(logits, kind, index, exclusive)
    rival = _values(logits, kind, against.clamp_min(0), exclusive)
    alone = against == NOTHING
    if kind != "margin":
        return target - torch.where(alone, 0.0, rival)
    # Logits that share a constant say nothing by it, so it is taken out; labels that may all be true share none.
    others = (logits.sum(1) - target) / (logits.shape[1] - 1) if exclusive else 0 * target
    return target - torch.where(alone, others, rival)


def _values(logits: Tensor, kind: Score, index: Tensor, exclusive: bool) -> Tensor:
    """The number of class `index` of each row; of a margin its logit."""
    column = index[:, None]
    target = logits.gather(1, column)[:, 0]
    if kind == "probability":
        return probabilities(logits, exclusive=exclusive).gather(1, column)[:, 0]
    if kind != "log_odds" or not exclusive:
        return target
    # Against the sum of all others, not log(p / (1 − p)): a confident model's p rounds to 1.
    return target - logits.scatter(1, column, -torch.inf).logsumexp(1)


def probabilities(logits: Tensor, *, exclusive: bool) -> Tensor:
    """As transformers' pipelines have it: softmax, or a sigmoid each for labels that may all be true."""
    return logits.softmax(-1) if exclusive else logits.sigmoid()


def wide(logits: Tensor) -> Tensor:
    return logits if logits.dtype == torch.float64 else logits.float()


@dataclass(frozen=True, eq=False)
class HeadOutput:
    """The output for one input, for a row to put into words."""

    model: nn.Module
    processor: Any
    logits: Tensor
    """Of this input alone, and of rows that predict at each position, at the explained one."""
    target: Any = None
    """As the caller named it; None for the best."""
    prepared: PreparedInput | None = None
    """The input; None where only its tensors are known."""

    def chosen(self, logits: Tensor, index_of: Callable[[Any], int]) -> tuple[int, int | None]:
        """What is explained, by default the best, and what it is compared with."""
        target, other = split(self.target)
        index = int(logits.argmax()) if target is None else index_of(target)
        return index, self.rival(index, None if other is None else index_of(other))

    def best_probability(self, index: int, shares: Tensor) -> float | None:
        """The probability of the prediction, where `index` is another target; else None."""
        best = int(shares.argmax())
        return None if shares[index] == shares[best] else shares[best].item()

    def rival(self, index: int, other: int | None) -> int | None:
        """What the target is compared with, which must not be itself."""
        if other == index:
            raise ChoiceError(f"target {self.target!r} sets one answer against itself; give two different ones")
        return other


def shift_target_position(target: Target, gone: Sequence[int]) -> Target:
    """The output is read where its position has moved to; if it is gone itself, at the one before."""
    return replace(target, position=shifted_index(target.position, gone))


def shifted_index(index: int, gone: Sequence[int]) -> int:
    """Where a position stands when some are gone."""
    return max(0, index - sum(other <= index for other in gone))


@dataclass(frozen=True)
class HeadKind:
    """One kind of head. A plug-in's row has the rights of a built-in."""

    name: str
    logits: Callable[[nn.Module, Any], Tensor | None]
    """(model, output) → its numbers, the batch first; None where the model has no such head."""
    prediction: Callable[[HeadOutput], Prediction | None]
    """What it predicts for one input; None where these numbers are no prediction."""
    score: Callable[[nn.Module, Tensor, Tensor, Score], Tensor]
    """(model, logits of a batch, targets as rows, which number) → one number for each input."""
    per_position: bool = False
    """Whether it predicts at each position: logits are batch × position × class, and `score` gets the target's."""
    requires_target: bool = False
    """Whether only a target selects it, and no model predicts so by itself."""
    scores: tuple[Score, ...] = SCORES
    """The numbers that its predictions have; the first is the default if the usual one is none of them."""
    recognized_by: Callable[[nn.Module], bool] = lambda model: False
    """Whether a model is known to predict so before it runs; needed of rows that lack some scores."""
    moved: Callable[[Target, Sequence[int]], Target] = shift_target_position
    """(target, positions) → the target when these positions are taken out of the input."""
    notes: Callable[[HeadOutput, Prediction], tuple[str, ...]] = lambda output, prediction: ()
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
    """How many positions stand before the first that has an output: those of an encoder–decoder's source."""
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
