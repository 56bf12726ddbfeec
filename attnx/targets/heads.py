"""The kinds of heads, but for spans: classes, labels, values, tags, tokens, choices, next sentences, embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from attnx.adapters import OWN, POOLINGS, has_head
from attnx.errors import InputError
from attnx.targets.base import (
    LANGUAGE_MODELS,
    NOTHING,
    HeadKind,
    HeadOutput,
    Prediction,
    Score,
    Target,
    class_count,
    class_index,
    class_names,
    exclusive,
    head_output,
    probabilities,
    problem_type,
    score_of,
    shifted_index,
    split,
    token_ids,
    token_index,
    wide,
)


def class_prediction(output: HeadOutput, kind: str, labels: tuple[str, ...] | None = None) -> Prediction:
    """One of the classes with its probability."""
    labels = class_names(output.model, len(output.logits)) if labels is None else labels
    index, rival = output.chosen(output.logits, lambda target: class_index(target, labels))
    shares = probabilities(output.logits, exclusive=exclusive(output.model, len(labels)))
    return Prediction(
        kind,
        labels[index],
        index,
        shares[index].item(),
        labels,
        tuple(output.logits.tolist()),
        None if rival is None else labels[rival],
        rival,
        predicted_probability=output.best_probability(index, shares),
    )


def class_score(model: nn.Module, logits: Tensor, targets: Tensor, kind: Score) -> Tensor:
    index, _, against = targets[:, :3].long().unbind(1)
    return score_of(logits, index, against, kind, exclusive=exclusive(model, logits.shape[-1]))


def _of_input(model: nn.Module, output: Any) -> Tensor | None:
    logits = head_output(model, output)
    return logits if logits is not None and logits.ndim == 2 else None


def _by_position(model: nn.Module, output: Any) -> Tensor | None:
    logits = head_output(model, output)
    return logits if logits is not None and logits.ndim == 3 else None


def _has_all_classes(output: HeadOutput) -> bool:
    return len(output.logits) == class_count(output.model)


def _is_value(model: nn.Module) -> bool:
    return problem_type(model) == "regression"


def _value(output: HeadOutput) -> Prediction | None:
    if not _has_all_classes(output):
        return None
    labels, values = class_names(output.model, len(output.logits)), tuple(output.logits.tolist())
    index, rival = output.chosen(output.logits, lambda target: class_index(target, labels))
    against = None if rival is None else labels[rival]
    return Prediction("value", f"{labels[index]} = {values[index]:.4g}", index, None, labels, values, against, rival)


def _value_notes(output: HeadOutput, prediction: Prediction) -> tuple[str, ...]:
    name = prediction.labels[prediction.index]
    unit = "a unit that its config does not name" if name.startswith("LABEL_") else f"the unit of {name!r}"
    return (f"a regression: the value is in {unit}, that of the data it was trained on, and has no probability",)


def _labels(model: nn.Module, output: Any) -> Tensor | None:
    logits = _of_input(model, output)
    several = logits is not None and logits.shape[-1] > 1 and not exclusive(model, logits.shape[-1])
    return logits if several else None


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
    logits=_labels,
    prediction=lambda output: class_prediction(output, "label") if _has_all_classes(output) else None,
    score=class_score,
)
CLASS = HeadKind(
    "class",
    logits=_of_input,
    prediction=lambda output: class_prediction(output, "class") if _has_all_classes(output) else None,
    score=class_score,
)


_TOKENS_KEPT = 20
"""Of a vocabulary only the best are kept: all logits of a language model would outweigh the whole explanation."""


def _tags(model: nn.Module, output: Any) -> Tensor | None:
    logits = _by_position(model, output)
    if logits is None or logits.shape[-1] != class_count(model) or has_head(model, *LANGUAGE_MODELS):
        return None
    return logits


def _token(output: HeadOutput) -> Prediction:
    tokenizer, logits = output.processor, output.logits
    index, rival = output.chosen(logits, lambda target: token_index(target, tokenizer, len(logits)))
    best = logits.topk(min(_TOKENS_KEPT, len(logits)))
    shares = torch.softmax(logits, -1)
    return Prediction(
        "token",
        tokenizer.decode([index]),
        index,
        shares[index].item(),
        tuple(tokenizer.decode([int(index)]) for index in best.indices),
        tuple(best.values.tolist()),
        None if rival is None else tokenizer.decode([rival]),
        rival,
        predicted_probability=output.best_probability(index, shares),
    )


def _token_notes(output: HeadOutput, prediction: Prediction) -> tuple[str, ...]:
    """What a user must know of a target that is more than one token: only the first is explained."""
    tokenizer, notes = output.processor, []
    for target in split(output.target):
        ids = token_ids(target, tokenizer) if isinstance(target, str) else []
        if len(ids) > 1:
            pieces = " ".join(tokenizer.convert_ids_to_tokens(ids))
            notes.append(
                f"target {target!r} is {len(ids)} tokens here ({pieces}): the first is explained; of a decoder, a "
                "generation with that continuation explains all of them"
            )
    return tuple(notes)


TAG = HeadKind(
    "tag",
    logits=_tags,
    prediction=lambda output: class_prediction(output, "tag"),
    score=class_score,
    per_position=True,
)
TOKEN = HeadKind(
    "token", logits=_by_position, prediction=_token, score=class_score, per_position=True, notes=_token_notes
)


@dataclass(frozen=True)
class ChoiceTarget:
    """A choice as target: its number, and the logits of all choices."""

    index: int
    labels: tuple[str, ...]
    logits: tuple[float, ...]
    against: int | None = None

    @classmethod
    def of(cls, labels: tuple[str, ...], logits: tuple[float, ...], target: Any = None) -> ChoiceTarget:
        """The best, or the choice that a caller named by its text or its number, or a pair of them."""
        output = HeadOutput(nn.Module(), None, torch.tensor(logits, dtype=torch.float64), target)
        index, rival = output.chosen(output.logits, lambda name: class_index(name, labels))
        return cls(index, labels, logits, rival)


def _choice_logits(model: nn.Module, output: Any) -> Tensor | None:
    """batch × 1: the number of each choice."""
    if not has_head(model, "ForMultipleChoice"):
        return None
    logits = output[0] if isinstance(output, tuple) else getattr(output, "logits", None)
    return logits if isinstance(logits, Tensor) and logits.ndim == 2 else None


def _choice(output: HeadOutput) -> Prediction:
    choice = output.target
    if not isinstance(choice, ChoiceTarget):
        raise InputError(
            f"{type(output.model).__name__} chooses among several texts; give a text and its choices: "
            "(text, [choice, …])"
        )
    logits = torch.tensor(choice.logits, dtype=torch.float64)
    others = torch.cat((logits[: choice.index], logits[choice.index + 1 :]))
    shares = logits.softmax(0)
    return Prediction(
        "choice",
        choice.labels[choice.index],
        choice.index,
        float(shares[choice.index]),
        choice.labels,
        choice.logits,
        None if choice.against is None else choice.labels[choice.against],
        choice.against,
        beside=(
            float(others.mean()),
            float(others.logsumexp(0)),
            0.0 if choice.against is None else float(logits[choice.against]),
        ),
        predicted_probability=output.best_probability(choice.index, shares),
    )


def _choice_score(model: nn.Module, logits: Tensor, targets: Tensor, kind: Score) -> Tensor:
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


def _choice_notes(output: HeadOutput, prediction: Prediction) -> tuple[str, ...]:
    others = len(prediction.labels) - 1
    return (
        f"choice {prediction.index} of 0 to {others}: the model reads each by itself, so this is about the words of "
        "this one, the numbers of the others held as they are; target=… explains another",
    )


CHOICE = HeadKind("choice", logits=_choice_logits, prediction=_choice, score=_choice_score, notes=_choice_notes)


def _next_sentence_logits(model: nn.Module, output: Any) -> Tensor | None:
    if not has_head(model, "ForNextSentencePrediction"):
        return None
    return output[0] if isinstance(output, tuple) else head_output(model, output)


def _next_sentence(output: HeadOutput) -> Prediction:
    if output.prepared is not None and isinstance(output.prepared.text, str):
        raise InputError(
            f"{type(output.model).__name__} says whether a second text follows the first; give both as a pair: "
            "(text, text)"
        )
    return class_prediction(output, "next sentence", ("follows", "does not follow"))  # transformers' order


NEXT_SENTENCE = HeadKind("next sentence", logits=_next_sentence_logits, prediction=_next_sentence, score=class_score)


_POOLINGS = (*POOLINGS, OWN)


@dataclass(frozen=True)
class SimilarityTarget:
    """A target that no model has by itself: the cosine with an embedding, held fixed, of a text or of an image."""

    vector: tuple[float, ...]
    """A unit vector."""
    text: str
    """What it is the embedding of, in words."""
    pooling: str
    length: int
    """Positions of the input itself; what is behind them is padding."""
    kind: ClassVar[str] = "similarity"

    def target(self, position: int) -> Target:
        return Target(0, position, kind=self.kind, beside=self.beside)

    @property
    def beside(self) -> tuple[float, ...]:
        return (float(_POOLINGS.index(self.pooling)), float(self.length), *self.vector)


def pooled(states: Tensor, pooling: str, length: int) -> Tensor:
    """position × width → the embedding: the mean of all positions, the first, the last, or the only one there is."""
    if pooling == "mean":
        return states[:length].mean(0)
    return states[length - 1 if pooling == "last" else 0]


def _states(model: nn.Module, output: Any) -> Tensor | None:
    """batch × position × width, as they leave the last layer."""
    tensor = output[0] if isinstance(output, tuple) else getattr(output, "last_hidden_state", None)
    return tensor if isinstance(tensor, Tensor) and tensor.ndim == 3 and tensor.is_floating_point() else None


def _cosine(model: nn.Module, states: Tensor, targets: Tensor, kind: Score) -> Tensor:
    """Column 3 is how positions are pooled, column 4 how many there are, and all further ones are the direction."""
    pooling, lengths = _POOLINGS[int(targets[0, 3])], targets[:, 4].long()
    embeddings = [pooled(state, pooling, int(length)) for state, length in zip(states, lengths, strict=True)]
    stacked = wide(torch.stack(embeddings))
    cosines: Tensor = (stacked * targets[:, 5:].to(stacked.dtype)).sum(-1) / stacked.norm(dim=-1)
    return cosines


def _similarity(output: HeadOutput) -> Prediction:
    target: SimilarityTarget = output.target
    row = torch.tensor([(0, 0, NOTHING, *target.beside)], dtype=torch.float64, device=output.logits.device)
    cosine = float(_cosine(output.model, output.logits[None], row, "cosine"))
    label = f"{cosine:.3f} with {target.text}"
    return Prediction(target.kind, label, 0, None, ("cosine",), (cosine,), beside=target.beside)


def _shift_similarity(target: Target, gone: Sequence[int]) -> Target:
    pooling, length, *vector = target.beside
    return replace(
        target, position=shifted_index(target.position, gone), beside=(pooling, length - len(set(gone)), *vector)
    )


SIMILARITY = HeadKind(
    SimilarityTarget.kind,
    logits=_states,
    prediction=_similarity,
    score=_cosine,
    requires_target=True,
    scores=("cosine",),
    moved=_shift_similarity,
)
