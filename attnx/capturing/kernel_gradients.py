"""The gradient of an answer at the output of each attention call, by one run there and back.

Kernels stay as they are, fused or not: the gradient of an attention weight is that of its query's output times its
key's value, so no map needs one of its own.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnx.capturing.frozen.mode import Kernel
from attnx.capturing.frozen.path import GRADIENT
from attnx.capturing.frozen.rules import freezing
from attnx.capturing.frozen.run import Scores, check_can_be_frozen
from attnx.capturing.watch import undisturbed
from attnx.errors import CaptureError


def kernel_gradients(model: nn.Module, scores: Scores, *, entry: nn.Module | Tensor) -> tuple[Kernel, ...]:
    """Every attention call of the run of `scores`, in order, with the gradient of their sum at its output.

    `entry` is the module that embeds tokens, or pixels that have a gradient.
    """
    check_can_be_frozen(model)
    mode = freezing(model, GRADIENT, entry, ends=slice(None))
    # Inference mode, unlike no_grad, cannot be overruled from within: it has to be left.
    with torch.inference_mode(False), undisturbed(model, gradients=True):
        with mode:
            reached = scores()
        if mode.leaves and reached.requires_grad:
            torch.autograd.grad(reached.double().sum(), mode.leaves, allow_unused=True)
    if all(kernel.outputs_gradient is None for kernel in mode.kernels):
        raise CaptureError(
            f"{type(model).__name__} gives no gradient of its answer by its input: it is quantised, or embeds its "
            "input in a way that is not seen; use rollout, or references=('blankout',)"
        )
    return tuple(mode.kernels)
