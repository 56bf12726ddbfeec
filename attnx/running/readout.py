"""Attention with what reads one answer off the residual stream beside it, as methods of a score's share need it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from attnx.answer.score import as_rows, check_score, kind_of, score
from attnx.answer.target import Target
from attnx.attention.tensor import AttentionTensor
from attnx.capturing.readout import readouts
from attnx.capturing.untouched import switched
from attnx.errors import CaptureError, ChoiceError
from attnx.inputs.adapter import Prepared
from attnx.running.batches import collate, padding_id


def readouts_of(
    model: nn.Module,
    processor: Any,
    prepared: Prepared,
    attention: AttentionTensor,
    targets: Sequence[Target],
    asking: str,
) -> list[dict[str, Tensor]]:
    """For each target `readout` and `read`, position × width, and the `score`, for all levels to bring.

    They are the target's margin, what leaves the last block, and the margin's gradient there: one run for all targets.
    Blocks must have been brought. `asking` names the methods that want it.
    """
    if attention.streams:
        raise ChoiceError(
            f"{asking} is defined for one stack, and {type(model).__name__} has two streams; use alti, or "
            "references=('value_path',)"
        )
    if any("norm.gain" in level.brought for level in attention.levels):
        raise ChoiceError(
            f"{asking} reads the answer off a residual stream that goes on as it is, and {type(model).__name__} norms "
            "it behind each block (post-LN); use references=('value_path',)"
        )
    with switched(gradients=True):
        inputs = collate(model, [prepared], padding_id(model, processor))
        answers = kind_of(targets)
        kind = check_score(None, model, "margin", answers)
        device = next(iter(inputs.values())).device
        rows, of = as_rows(targets, device), torch.zeros(len(targets), dtype=torch.long, device=device)
        block = _last_block(model, attention.modules)
        found = readouts(model, lambda: score(model, inputs, rows, kind, of, answers=answers), block=block)
    if found[0].states.shape != attention.levels[-1].brought["states"].shape:
        raise CaptureError(
            f"{type(model).__name__} goes on with {len(found[0].states)} positions of {attention.length}, so its "
            f"answer is not read off the stream that was seen; {asking} cannot tell. Use references=('value_path',)"
        )
    return [
        {"readout": one.gradient, "read": one.states, "score": torch.tensor(one.score, dtype=torch.float64)}
        for one in found
    ]


def with_brought(attention: AttentionTensor, brought: Mapping[str, Tensor]) -> AttentionTensor:
    """The same attention, each level of which brings these as well."""
    return replace(attention, levels=tuple(level.bringing(brought) for level in attention.levels))


def _last_block(model: nn.Module, attending: Sequence[str]) -> nn.Module:
    """The element of a list of modules in which the last attention is, and no other: the outermost of them.

    A block may have a list of its own, for attention and MLP (T5).
    """
    modules: dict[str, nn.Module] = dict(model.named_modules())
    listed = {id(one) for each in modules.values() if isinstance(each, nn.ModuleList) for one in each}
    path = attending[-1].split(".")
    for end in range(1, len(path) + 1):
        name = ".".join(path[:end])
        inside = sum(one == name or one.startswith(f"{name}.") for one in attending)
        if id(modules.get(name)) in listed and inside == 1:
            return modules[name]
    raise CaptureError(
        f"no block was seen around the attention of {attending[-1] or type(model).__name__}, so where its answer is "
        "read is not known; use references=('value_path',)"
    )
