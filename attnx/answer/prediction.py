"""What the model answered at the explained position, in the numbers that its pipeline would show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from attnx.answer.named import class_index, split, token_index
from attnx.errors import CaptureError, ChoiceError
from attnx.inputs.model_facts import has_head

_LANGUAGE_MODELS = ("ForMaskedLM", "ForCausalLM", "LMHeadModel")

_LATER = {"later": True}
"""Files that were written before these fields came lack them; `results.schema` reads it."""

_TOKENS_KEPT = 20
"""Of a vocabulary only the best are kept: all logits of a language model would outweigh the whole explanation."""


@dataclass(frozen=True)
class Prediction:
    """The answer, and the alternatives that it beat."""

    kind: Literal["class", "label", "value", "token"]
    """One class of several, one of labels that may all hold, the number of a regression, or a token."""
    label: str
    index: int
    probability: float | None
    """None for a regression, which has a value and no probability."""
    labels: tuple[str, ...]
    logits: tuple[float, ...]
    """One for each of `labels`: all classes, or the best tokens of the vocabulary."""
    against: str | None = field(default=None, metadata=_LATER)
    """Of a pair, what `label` is set against: the scores of what knows the answer are about the margin."""
    against_index: int | None = field(default=None, metadata=_LATER)

    @property
    def noun(self) -> str:
        """What it is, in a headline."""
        several = f"one of {len(self.labels)} labels that may all hold"
        return {"label": several, "value": "value"}.get(self.kind, "prediction")

    @property
    def contrast(self) -> str:
        """What is explained, in a heading: a class or a token, of a pair with what it is set against."""
        own = (self.labels[self.index] if self.kind == "value" else self.label).strip()
        return own if self.against is None else f"{own} against {self.against.strip()}"

    def __str__(self) -> str:
        sure = "" if self.probability is None else f" ({self.probability:.3f})"
        rival = "" if self.against is None else f" against {_inert(self.against).strip()}"
        return f"{_inert(self.label)}{sure}{rival}"


def predict(
    model: nn.Module, processor: Any, output: Any, row: int, position: int, target: Any = None
) -> Prediction | None:
    """Read the prediction for input `row` of a batch off the model's output; None when the model has no such head.

    With a `target` the prediction speaks of that class or token instead of the best one; of a pair, of the first
    against the second.
    """
    logits = logits_of(model, output)
    if logits is None:
        if target is not None:
            raise ChoiceError(
                f"target {target!r} asked, but {type(model).__name__} has no head that predicts; load one that has"
            )
        return None
    classes = getattr(model.config, "num_labels", -1)
    by_position = logits.ndim == 3
    answer = (logits[row, position] if by_position else logits[row]).detach().float()
    if not bool(answer.isfinite().all()):
        raise CaptureError(
            f"{type(model).__name__} predicts NaN or infinity: its weights are damaged, or half precision overflows; "
            "check the checkpoint, or use model.float()"
        )
    if len(answer) == classes and not (by_position and has_head(model, *_LANGUAGE_MODELS)):
        return _class(model, answer, target)
    return _token(processor, answer, target) if by_position else None


def logits_of(model: nn.Module, output: Any) -> Tensor | None:
    """batch × class, or batch × position × class; a model may be set to return a tuple, in which they come first."""
    if has_head(model, "ForPreTraining"):
        return None
    logits = getattr(output, "logits", None)
    if logits is None and isinstance(output, tuple) and has_head(model, *_LANGUAGE_MODELS, "Classification"):
        logits = output[0]
    return logits if isinstance(logits, Tensor) and logits.ndim in (2, 3) else None


def probabilities(model: nn.Module, logits: Tensor) -> Tensor:
    """As transformers' pipelines have it: softmax, or a sigmoid each for labels that may all be true."""
    return logits.softmax(-1) if exclusive(model, logits) else logits.sigmoid()


def exclusive(model: nn.Module, logits: Tensor) -> bool:
    """Whether just one class is true, so that probabilities share one sum; a regression has none at all."""
    problem = getattr(model.config, "problem_type", None)
    if problem == "regression":
        raise ChoiceError(f"{type(model).__name__} predicts a value, which has no probability; use its logit")
    return problem != "multi_label_classification" and logits.shape[-1] > 1


def _class(model: nn.Module, logits: Tensor, target: Any) -> Prediction:
    names = getattr(model.config, "id2label", None) or {}
    labels = tuple(str(names.get(index, f"LABEL_{index}")) for index in range(len(logits)))
    index, rival = _chosen(target, logits, lambda asked: class_index(asked, labels))
    against = None if rival is None else labels[rival]
    values = tuple(logits.tolist())
    if getattr(model.config, "problem_type", None) == "regression":
        told = f"{labels[index]} = {values[index]:.4g}"
        return Prediction("value", told, index, None, labels, values, against, rival)
    probability = probabilities(model, logits)[index].item()
    kind: Literal["class", "label"] = "class" if len(labels) == 1 or exclusive(model, logits) else "label"
    return Prediction(kind, labels[index], index, probability, labels, values, against, rival)


def _token(tokenizer: Any, logits: Tensor, target: Any) -> Prediction:
    index, rival = _chosen(target, logits, lambda asked: token_index(asked, tokenizer, len(logits)))
    against = None if rival is None else tokenizer.decode([rival])
    best = logits.topk(min(_TOKENS_KEPT, len(logits)))
    labels = tuple(tokenizer.decode([int(one)]) for one in best.indices)
    probability = torch.softmax(logits, -1)[index].item()
    values = tuple(best.values.tolist())
    return Prediction("token", tokenizer.decode([index]), index, probability, labels, values, against, rival)


def _chosen(target: Any, logits: Tensor, index_of: Callable[[Any], int]) -> tuple[int, int | None]:
    """What is explained, by default the best, and what it is set against."""
    asked, other = split(target)
    index = int(logits.argmax()) if asked is None else index_of(asked)
    rival = None if other is None else index_of(other)
    if rival == index:
        raise ChoiceError(f"target {target!r} sets one answer against itself; give two different ones")
    return index, rival


def _inert(label: str) -> str:
    """As it is, unless it may steer a terminal."""
    return label if label.isprintable() else repr(label)[1:-1]
