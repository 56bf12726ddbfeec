"""Whether the second of two texts follows the first: BERT's second task."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from attnx.answer.kind import AnswerKind, Told
from attnx.answer.kinds.classes import class_prediction, class_score
from attnx.answer.output import head_output
from attnx.answer.prediction import Prediction
from attnx.errors import InputError
from attnx.inputs.model_facts import has_head

_LABELS = ("follows", "does not follow")
"""In the order of transformers: 0 says that the second text goes on with the first."""


def _logits(model: nn.Module, output: Any) -> Tensor | None:
    if not has_head(model, "ForNextSentencePrediction"):
        return None
    return output[0] if isinstance(output, tuple) else head_output(model, output)


def _prediction(told: Told) -> Prediction:
    if told.prepared is not None and isinstance(told.prepared.text, str):
        raise InputError(
            f"{type(told.model).__name__} says whether a second text follows the first; give both as a pair: "
            "(text, text)"
        )
    return class_prediction(told, "next sentence", _LABELS)


NEXT_SENTENCE = AnswerKind("next sentence", logits=_logits, prediction=_prediction, score=class_score)
