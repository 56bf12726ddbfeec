"""The answer to one input of a batch, read off the model's output."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from attnx.answer.kind import Told
from attnx.answer.output import behind_source
from attnx.answer.prediction import Prediction
from attnx.answer.registry import ANSWERS, read
from attnx.errors import CaptureError, ChoiceError
from attnx.inputs.adapter import Prepared


def predict(
    model: nn.Module,
    processor: Any,
    output: Any,
    row: int,
    position: int,
    target: Any = None,
    prepared: Prepared | None = None,
) -> Prediction | None:
    """Read the prediction for input `row` of a batch off the model's output; None when the model has no such head.

    With a `target` the prediction speaks of that part of the answer instead of the best one; of a pair, of the first
    against the second.
    """
    found = read(model, output, getattr(target, "kind", ""))
    if found is None:
        if target is not None:
            raise ChoiceError(
                f"target {target!r} asked, but {type(model).__name__} has no head that predicts; load one that has"
            )
        return None
    kind, logits = found
    own = (logits[row, position - behind_source(output)] if kind.at_each else logits[row]).detach().float()
    if not bool(own.isfinite().all()):
        raise CaptureError(
            f"{type(model).__name__} predicts NaN or infinity: its weights are damaged, or half precision overflows; "
            "check the checkpoint, or use model.float()"
        )
    return kind.prediction(Told(model, getattr(processor, "tokenizer", processor), own, target, prepared))


def answer_notes(model: nn.Module, processor: Any, prediction: Prediction | None, target: Any) -> tuple[str, ...]:
    """What the user should know of what is explained of the answer."""
    if prediction is None or prediction.kind not in ANSWERS:
        return ()
    tokenizer = getattr(processor, "tokenizer", processor)
    return ANSWERS[prediction.kind].notes(Told(model, tokenizer, torch.empty(0), target), prediction)
