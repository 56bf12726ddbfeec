"""Attention with the gradient of one answer beside it, as weightings about the answer need it.

The run that was watched is the one that is gone back through. Kernels stay as they are, fused or not: the gradient of
an attention weight is that of its query's output times its key's value, so no map needs one of its own.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from attnx.answer.score import check_score, score_of
from attnx.answer.target import Target
from attnx.attention.levels import Level
from attnx.attention.tensor import AttentionTensor
from attnx.capturing.entering import GradientCheck, no_gradient
from attnx.capturing.frozen.run import check_can_be_frozen
from attnx.capturing.untouched import switched
from attnx.errors import CaptureError
from attnx.running.observe import Observation


def with_answer_gradient(model: nn.Module, seen: Observation, target: Target) -> AttentionTensor:
    """The attention that was seen, each level of which brings `gradient`: that of the target's margin at every head.

    The run must have been one with a way back; any number of targets may be asked for of it.
    """
    check_can_be_frozen(model)
    levels = seen.attention.levels
    with switched(gradients=True):
        kind = check_score(None, model, "margin", target.kind)
        reached = score_of(model, seen.output, seen.row, seen.seat(target.position), target, kind)
        outputs = [level.brought["outputs"] for level in levels if "outputs" in level.brought]
        followed = len(outputs) == len(levels) and all(one.requires_grad for one in outputs)
        able = followed and reached.requires_grad
        check = GradientCheck()
        check.follow(reached)
        found = torch.autograd.grad(reached, outputs, retain_graph=True, allow_unused=True) if able else ()
    if check.operation is not None:
        raise CaptureError(f"{no_gradient(model, check.operation)}; use rollout, or references=('blankout',)")
    if all(one is None for one in found):
        raise CaptureError(
            f"{type(model).__name__} gives no gradient of its answer by its input: it is quantised, or embeds its "
            "input in a way that is not seen; use rollout, or references=('blankout',)"
        )
    return replace(seen.attention, levels=tuple(map(_with_gradient, levels, found)))


def _with_gradient(level: Level, found: Tensor | None) -> Level:
    values = level.brought["values"]
    shape = (level.heads, level.own.stop - level.own.start, values.shape[-1])
    return level.bringing({"gradient": values.new_zeros(shape) if found is None else found.reshape(shape)})
