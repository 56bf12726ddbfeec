"""Which inputs run together: groups of similar length, and one by one where padding would change the numbers."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn

from attnx.adapters import Prepared
from attnx.capture import Captured

Run = Callable[[Sequence[Prepared]], Captured]
"""Runs some prepared inputs as one batch."""

_takes_padding: weakref.WeakKeyDictionary[nn.Module, bool] = weakref.WeakKeyDictionary()

_TOLERANCE = 1e-5
"""Of the largest number: rounding in float32 differs less between batch shapes. A false alarm costs only time."""


def batches(model: nn.Module, prepared: Sequence[Prepared], size: int, run: Run) -> Iterator[list[int]]:
    """Indices in groups of similar length, so that little is spent on padding."""
    order = sorted(range(len(prepared)), key=lambda index: len(prepared[index].positions))
    if size > 1 and not _padding_is_harmless(model, prepared[order[0]], prepared[order[-1]], run):
        size = 1
    for start in range(0, len(order), size):
        yield order[start : start + size]


def _padding_is_harmless(model: nn.Module, short: Prepared, long: Prepared, run: Run) -> bool:
    """Whether an input gives the same padded as alone; tried once for each model.

    Some models read padding all the same: XLNet answers from its last position, ConvBERT convolves over it, and
    classifiers on decoders refuse a batch when their config names no padding.
    """
    if len(short.positions) == len(long.positions):
        return True
    if model not in _takes_padding:
        alone = run([short])
        try:
            padded = run([short, long])
        except Exception:
            _takes_padding[model] = False
        else:
            _takes_padding[model] = _same(alone, padded)
    return _takes_padding[model]


def _same(alone: Captured, padded: Captured) -> bool:
    pairs = [(alone.attention[0].weights, padded.attention[0].weights)]
    pairs += zip(_answers(alone.output), _answers(padded.output), strict=False)
    return all(
        one.shape == other.shape and torch.allclose(one.float(), other.float(), atol=_slack(other), rtol=0)
        for one, other in pairs
    )


def _answers(output: Any) -> list[torch.Tensor]:
    """What a classifier says of the first input; answers for each position are compared through the attention."""
    logits = getattr(output, "logits", None)
    return [logits[0]] if isinstance(logits, torch.Tensor) and logits.ndim == 2 else []


def _slack(tensor: torch.Tensor) -> float:
    precise = tensor.dtype in (torch.float32, torch.float64)
    return (_TOLERANCE if precise else 2e-2) * (1 + float(tensor.abs().amax()))
