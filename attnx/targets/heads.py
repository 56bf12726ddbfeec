"""Whether the second of two texts follows the first: BERT's second task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attnx.adapters import has_head
from attnx.errors import InputError
from attnx.targets.base import (
    LANGUAGE_MODELS,
    NOTHING,
    HeadKind,
    HeadOutput,
    Score,
    class_count,
    class_index,
    class_names,
    exclusive,
    head_output,
    number_of,
    pieces_of,
    probabilities,
    problem_type,
    split,
    token_index,
    wide,
)
from attnx.targets.prediction import Prediction


def class_prediction(told: HeadOutput, kind: str, labels: tuple[str, ...]) -> Prediction:
    """One of the classes with its probability."""
    index, rival = told.chosen(told.logits, lambda asked: class_index(asked, labels))
    shares = probabilities(told.logits, exclusive=exclusive(told.model, len(labels)))
    return Prediction(
        kind,
        labels[index],
        index,
        shares[index].item(),
        labels,
        _values(told.logits),
        None if rival is None else labels[rival],
        rival,
        predicted_probability=told.best_probability(index, shares),
    )


def class_score(model: nn.Module, logits: Tensor, targets: Tensor, kind: Score) -> Tensor:
    index, _, against = targets[:, :3].long().unbind(1)
    return number_of(logits, index, against, kind, exclusive=exclusive(model, logits.shape[-1]))


def _of_input(model: nn.Module, output: Any) -> Tensor | None:
    logits = head_output(model, output)
    return logits if logits is not None and logits.ndim == 2 else None


def _is_value(model: nn.Module) -> bool:
    return problem_type(model) == "regression"


def _is_label(model: nn.Module, logits: Tensor | None) -> bool:
    return logits is not None and logits.shape[-1] > 1 and not exclusive(model, logits.shape[-1])


def _class(told: HeadOutput) -> Prediction | None:
    count = len(told.logits)
    return class_prediction(told, "class", class_names(told.model, count)) if count == class_count(told.model) else None


def _label(told: HeadOutput) -> Prediction | None:
    count = len(told.logits)
    return class_prediction(told, "label", class_names(told.model, count)) if count == class_count(told.model) else None


def _value(told: HeadOutput) -> Prediction | None:
    if len(told.logits) != class_count(told.model):
        return None
    labels, values = class_names(told.model, len(told.logits)), _values(told.logits)
    index, rival = told.chosen(told.logits, lambda asked: class_index(asked, labels))
    against = None if rival is None else labels[rival]
    return Prediction("value", f"{labels[index]} = {values[index]:.4g}", index, None, labels, values, against, rival)


def _value_notes(told: HeadOutput, prediction: Prediction) -> tuple[str, ...]:
    name = prediction.labels[prediction.index]
    unit = "a unit that its config does not name" if name.startswith("LABEL_") else f"the unit of {name!r}"
    return (f"a regression: the value is in {unit}, that of the data it was trained on, and has no probability",)


def _values(logits: Tensor) -> tuple[float, ...]:
    return tuple(logits.tolist())


VALUE = HeadKind(
    "value",
    logits=lambda model, output: _of_input(model, output) if _is_value(model) else None,
    prediction=_value,
    score=class_score,
    scores=("logit",),
    recognized_by=_is_value,
    notes=_value_notes,
)
LABEL = HeadKind(
    "label",
    logits=lambda model, output: found if _is_label(model, found := _of_input(model, output)) else None,
    prediction=_label,
    score=class_score,
)
CLASS = HeadKind("class", logits=_of_input, prediction=_class, score=class_score)


_TOKENS_KEPT = 20
"""Of a vocabulary only the best are kept: all logits of a language model would outweigh the whole explanation."""


def _by_position(model: nn.Module, output: Any) -> Tensor | None:
    logits = head_output(model, output)
    return logits if logits is not None and logits.ndim == 3 else None


def _tags(model: nn.Module, output: Any) -> Tensor | None:
    logits = _by_position(model, output)
    if logits is None or logits.shape[-1] != class_count(model) or has_head(model, *LANGUAGE_MODELS):
        return None
    return logits


def _tag(told: HeadOutput) -> Prediction:
    return class_prediction(told, "tag", class_names(told.model, len(told.logits)))


def _token(told: HeadOutput) -> Prediction:
    tokenizer, logits = told.processor, told.logits
    index, rival = told.chosen(logits, lambda asked: token_index(asked, tokenizer, len(logits)))
    against = None if rival is None else tokenizer.decode([rival])
    best = logits.topk(min(_TOKENS_KEPT, len(logits)))
    labels = tuple(tokenizer.decode([int(index)]) for index in best.indices)
    shares = torch.softmax(logits, -1)
    return Prediction(
        "token",
        tokenizer.decode([index]),
        index,
        shares[index].item(),
        labels,
        tuple(best.values.tolist()),
        against,
        rival,
        predicted_probability=told.best_probability(index, shares),
    )


def _piece_notes(told: HeadOutput, prediction: Prediction) -> tuple[str, ...]:
    """What a user must know of a target that is more than one token: only the first is explained."""
    tokenizer, notes = told.processor, []
    for target in split(told.target):
        ids = pieces_of(target, tokenizer) if isinstance(target, str) else []
        if len(ids) > 1:
            pieces = " ".join(tokenizer.convert_ids_to_tokens(ids))
            notes.append(
                f"target {target!r} is {len(ids)} tokens here ({pieces}): the first is explained; of a decoder, a "
                "generation with that continuation explains all of them"
            )
    return tuple(notes)


TAG = HeadKind("tag", logits=_tags, prediction=_tag, score=class_score, per_position=True)
TOKEN = HeadKind(
    "token", logits=_by_position, prediction=_token, score=class_score, per_position=True, notes=_piece_notes
)


CHOICES = "ForMultipleChoice"


@dataclass(frozen=True)
class ChoiceTarget:
    """A choice as target: its number, and what the model gave to all."""

    index: int
    labels: tuple[str, ...]
    logits: tuple[float, ...]
    against: int | None = None

    @classmethod
    def of(cls, labels: tuple[str, ...], logits: tuple[float, ...], target: Any = None) -> ChoiceTarget:
        """The best, or the choice that a caller named by its text or its number, or a pair of them."""
        told = HeadOutput(nn.Module(), None, torch.tensor(logits, dtype=torch.float64), target)
        index, rival = told.chosen(told.logits, lambda one: class_index(one, labels))
        return cls(index, labels, logits, rival)


def _logits(model: nn.Module, output: Any) -> Tensor | None:
    """batch × 1: the number of each choice."""
    if not has_head(model, CHOICES):
        return None
    logits = output[0] if isinstance(output, tuple) else getattr(output, "logits", None)
    return logits if isinstance(logits, Tensor) and logits.ndim == 2 else None


def _prediction(told: HeadOutput) -> Prediction:
    among = told.target
    if not isinstance(among, ChoiceTarget):
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
    tensor, alone = wide(logits)[:, 0], targets[:, 2] == NOTHING
    mean, rest, rival = targets[:, 3:6].to(tensor.dtype).unbind(1)
    if kind == "probability":
        shares = torch.sigmoid(tensor - rest)
        # The one against has its share of what is left, whoever else there is.
        return torch.where(alone, shares, shares - (1 - shares) * (rival - rest).exp())
    if kind == "log_odds":
        without = rest + torch.log1p(-(rival - rest).exp().clamp_max(1))  # the others but for the one against
        return tensor - rest - torch.where(alone, 0.0, rival - torch.logaddexp(tensor, without))
    return tensor - torch.where(alone, mean if kind == "margin" else 0 * mean, rival)


def _notes(told: HeadOutput, prediction: Prediction) -> tuple[str, ...]:
    others = len(prediction.labels) - 1
    return (
        f"choice {prediction.index} of 0 to {others}: the model reads each by itself, so this is about the words of "
        "this one, the numbers of the others held as they are; target=… explains another",
    )


CHOICE = HeadKind("choice", logits=_logits, prediction=_prediction, score=_score, notes=_notes)


_LABELS = ("follows", "does not follow")
"""In the order of transformers: 0 says that the second text goes on with the first."""


def _next_sentence_logits(model: nn.Module, output: Any) -> Tensor | None:
    if not has_head(model, "ForNextSentencePrediction"):
        return None
    return output[0] if isinstance(output, tuple) else head_output(model, output)


def _next_sentence_prediction(told: HeadOutput) -> Prediction:
    if told.prepared is not None and isinstance(told.prepared.text, str):
        raise InputError(
            f"{type(told.model).__name__} says whether a second text follows the first; give both as a pair: "
            "(text, text)"
        )
    return class_prediction(told, "next sentence", _LABELS)


NEXT_SENTENCE = HeadKind(
    "next sentence", logits=_next_sentence_logits, prediction=_next_sentence_prediction, score=class_score
)
