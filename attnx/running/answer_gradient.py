"""Attention with the gradient of one answer beside it, as weightings about the answer need it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from attnx.answer.score import as_rows, check_score, score
from attnx.answer.target import Target
from attnx.attention.computed import Computed
from attnx.attention.levels import Held, Level
from attnx.attention.tensor import AttentionTensor
from attnx.capturing.frozen.mode import Kernel
from attnx.capturing.kernel_gradients import kernel_gradients
from attnx.capturing.proof import TOLERANCE
from attnx.capturing.untouched import switched
from attnx.errors import CaptureError
from attnx.inputs.adapter import Adapter, Prepared
from attnx.running.batches import collate, padding_id


def with_answer_gradient(
    model: nn.Module, adapter: Adapter, processor: Any, prepared: Prepared, attention: AttentionTensor, target: Target
) -> AttentionTensor:
    """The same attention, each level of which brings `gradient`: that of the target's margin at every head's output.

    Values must have been brought; they show that both runs saw the same.
    """
    with switched(gradients=True):
        inputs = collate(model, [prepared], padding_id(model, processor))
        if "pixel_values" in inputs:
            inputs["pixel_values"] = inputs["pixel_values"].detach().clone().requires_grad_()
        kind = check_score(None, model, "margin")
        targets = as_rows([target], next(iter(inputs.values())).device)
        pixels = inputs.get("pixel_values")
        entry = adapter.embedding_module(model) if pixels is None else pixels
        waiting = iter(kernel_gradients(model, lambda: score(model, inputs, targets, kind), entry=entry))
    return replace(attention, levels=tuple(_with_gradient(level, waiting) for level in attention.levels))


def _with_gradient(level: Level, kernels: Iterator[Kernel]) -> Level:
    """The level with the gradient of its own call: the next of that module."""
    kernel = next((one for one in kernels if one.module == level.module), None)
    values = level.brought["values"]
    if kernel is None or not _same(kernel, values):
        raise CaptureError(
            f"the attention of {level.module} was not seen again when gradients were computed; please report the "
            "model, and use methods that are not about the answer (rollout, alti)"
        )
    shape = (level.heads, level.mask.length, values.shape[-1])
    found = kernel.outputs_gradient
    gradient = values.new_zeros(shape) if found is None else found.reshape(shape)
    assert isinstance(level, Held | Computed)
    return replace(level, brought={**level.brought, "gradient": gradient})


def _same(kernel: Kernel, values: Tensor) -> bool:
    seen = kernel.values.reshape(-1, *kernel.values.shape[-2:])
    seen = seen[:: max(1, len(seen) // len(values))]
    slack = TOLERANCE.get(values.dtype, 1e-4) * (1 + float(values.abs().max()))
    return seen.shape == values.shape and bool((seen - values).abs().max() <= slack)
