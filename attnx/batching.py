"""Which inputs run together: groups of similar length, or of equal length where padding would change the numbers."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn

from attnx.adapters import Prepared

Run = Callable[[Sequence[Prepared]], Sequence[Tensor]]
"""Runs some inputs as one batch; returns what the model says of the first, which the others must not change."""

POSITIONS_AT_ONCE = 4_096
"""Positions in one batch, padding included: more is no faster on a CPU, and takes more memory."""

_TOLERANCE = 1e-5
"""Of the largest number: rounding in float32 differs less between batch shapes. A false alarm costs only time."""

_verdicts: weakref.WeakKeyDictionary[nn.Module, dict[str, bool]] = weakref.WeakKeyDictionary()


def batches(
    lengths: Sequence[int],
    *,
    mixed: bool,
    size: int | None = None,
    positions: int = POSITIONS_AT_ONCE,
    shapes: Sequence[tuple[int, ...]] | None = None,
) -> Iterator[list[int]]:
    """Indices from short to long. A batch has at most `size` inputs and so many `positions`, and at least one input.

    Only with `mixed` do inputs of different length share a batch. Images share one only when their `shapes` are equal.
    """
    shapes = [()] * len(lengths) if shapes is None else shapes
    order = sorted(range(len(lengths)), key=lambda index: (lengths[index], shapes[index]))
    batch: list[int] = []
    for index in order:
        # The newcomer is the longest so far, so the whole batch is padded to its length.
        full = batch and (len(batch) == size or lengths[index] * (len(batch) + 1) > positions)
        alien = batch and (shapes[index] != shapes[batch[0]] or (not mixed and lengths[index] != lengths[batch[0]]))
        if full or alien:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def takes_padding(
    model: nn.Module, prepared: Sequence[Prepared], pad_id: int | None, run: Run, *, road: str = "input_ids"
) -> bool:
    """Whether an input gives the same padded as alone; tried once for each model and `road` that inputs take into it.

    Some models read padding all the same: XLNet answers from its last position, ConvBERT convolves over it, and
    classifiers on decoders look for the padding token, which they do not find in embeddings.
    """
    short, long = min(prepared, key=_length), max(prepared, key=_length)
    if _length(short) == _length(long):
        return True
    if pad_id is None:
        return False
    verdicts = _verdicts.setdefault(model, {})
    if road not in verdicts:
        alone = run([short])
        try:
            verdicts[road] = _same(alone, run([short, long]))
        except Exception:
            verdicts[road] = False
    return verdicts[road]


def _length(prepared: Prepared) -> int:
    return len(prepared.positions)


def _same(alone: Sequence[Tensor], padded: Sequence[Tensor]) -> bool:
    return all(
        one.shape == other.shape and torch.allclose(one.float(), other.float(), atol=slack(other), rtol=0)
        for one, other in zip(alone, padded, strict=True)
    )


def slack(tensor: Tensor) -> float:
    """How far numbers like these may differ by rounding alone."""
    precise = tensor.dtype in (torch.float32, torch.float64)
    return (_TOLERANCE if precise else 2e-2) * (1 + float(tensor.abs().amax()))
