"""What a reference explains: the class that was predicted or asked for, as a logit or a probability."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attnx.errors import ChoiceError, InputError


def class_logits(model: nn.Module, output: Any) -> Tensor:
    """batch × class of a model that classifies whole inputs."""
    logits = getattr(output, "logits", None)
    if not isinstance(logits, Tensor) or logits.ndim != 2:
        raise InputError(f"{type(model).__name__} does not classify whole inputs; load it with such a head")
    return logits


def class_probabilities(model: nn.Module, logits: Tensor) -> Tensor:
    """Softmax over the classes, or a sigmoid each where several may be true."""
    problem = getattr(model.config, "problem_type", None)
    if problem == "regression":
        raise ChoiceError(f"{type(model).__name__} predicts a value, which has no probability")
    several = problem == "multi_label_classification" or logits.shape[-1] == 1
    return logits.sigmoid() if several else logits.softmax(-1)


def chosen_classes(logits: Tensor, targets: Sequence[int] | None) -> Tensor:
    """The class to explain in each row: the one asked for, or the predicted one."""
    if targets is None:
        return logits.argmax(-1)
    classes = logits.shape[-1]
    for target in targets:
        if not 0 <= target < classes:
            raise ChoiceError(f"target {target} asked, model has {classes} classes (0 to {classes - 1})")
    return torch.tensor(list(targets), device=logits.device)
