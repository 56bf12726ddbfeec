"""One answer for the whole input: a class of several, a label of some that may all hold, a regression's value."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from attnx.answer.kind import AnswerKind, Told
from attnx.answer.named import class_index
from attnx.answer.number import Score, number_of, probabilities
from attnx.answer.output import class_count, class_names, exclusive, head_output, problem_type
from attnx.answer.prediction import Prediction


def class_prediction(told: Told, kind: str, labels: tuple[str, ...]) -> Prediction:
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


def _class(told: Told) -> Prediction | None:
    count = len(told.logits)
    return class_prediction(told, "class", class_names(told.model, count)) if count == class_count(told.model) else None


def _label(told: Told) -> Prediction | None:
    count = len(told.logits)
    return class_prediction(told, "label", class_names(told.model, count)) if count == class_count(told.model) else None


def _value(told: Told) -> Prediction | None:
    if len(told.logits) != class_count(told.model):
        return None
    labels, values = class_names(told.model, len(told.logits)), _values(told.logits)
    index, rival = told.chosen(told.logits, lambda asked: class_index(asked, labels))
    against = None if rival is None else labels[rival]
    return Prediction("value", f"{labels[index]} = {values[index]:.4g}", index, None, labels, values, against, rival)


def _value_notes(told: Told, prediction: Prediction) -> tuple[str, ...]:
    name = prediction.labels[prediction.index]
    unit = "a unit that its config does not name" if name.startswith("LABEL_") else f"the unit of {name!r}"
    return (f"a regression: the value is in {unit}, that of the data it was trained on, and has no probability",)


def _values(logits: Tensor) -> tuple[float, ...]:
    return tuple(logits.tolist())


VALUE = AnswerKind(
    "value",
    logits=lambda model, output: _of_input(model, output) if _is_value(model) else None,
    prediction=_value,
    score=class_score,
    scores=("logit",),
    known_by=_is_value,
    notes=_value_notes,
)
LABEL = AnswerKind(
    "label",
    logits=lambda model, output: found if _is_label(model, found := _of_input(model, output)) else None,
    prediction=_label,
    score=class_score,
)
CLASS = AnswerKind("class", logits=_of_input, prediction=_class, score=class_score)
