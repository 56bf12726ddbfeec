"""Queries and keys kept beside a kernel, proven on some rows of its output, and put together for each input."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from attnx.capture.assemble import check_layout, layers_of, real_positions
from attnx.capture.recompute import check_rows, per_query_head, rows_checked
from attnx.capture.record import Record, Recorder
from attnx.errors import CaptureError
from attnx.long_attention import HeldRows, LayerRows, LongAttention, QueriesAndKeys, blocks, whole_rows


def can_be_kept(query: Tensor, key: Tensor) -> bool:
    """Whether a call of the kernel is attention of an input to itself, in the layout that a layer can be kept in."""
    return query.ndim == 4 and key.ndim == 4 and query.shape[-2] == key.shape[-2]


def batch_mask(mask: Tensor | None, query: Tensor, key: Tensor) -> Tensor | None:
    """The kernel's mask as (batch or 1) × (head or 1) × query × key, without a copy."""
    if mask is None:
        return None
    mask = mask[(None,) * (4 - mask.ndim)]
    return mask.expand(-1, -1, query.shape[-2], key.shape[-2])


def check_kept(record: Record, values: Tensor, output: Tensor) -> None:
    """Prove on a few rows that what was kept gives back the kernel's output."""
    rows = rows_checked(output.shape[-2])
    weights = torch.stack([torch.cat([whole_rows(one, row, row + 1) for row in rows], dim=1) for one in record.kept])
    if bool(weights.isfinite().all()):  # what is not is reported with its layer when all layers are in
        check_rows(weights, values, output[..., rows, :], record.module)


def mixed_in_blocks(record: Record, values: Tensor) -> Tensor:
    """batch × head × query × width: the values mixed by what was kept, some rows at a time."""
    output = values.new_empty(*record.weights.shape[:3], values.shape[-1])
    for one, value, mixed in zip(record.kept, values, output, strict=True):
        value = per_query_head(value[None], one.heads)[0]
        for start, stop in blocks(one):
            block = one.rows(start, stop)
            mixed[:, start:stop] = block.weights @ value[:, block.keys].to(block.weights)
    return output


def assemble_long(
    recorder: Recorder, model_name: str, *, padding: Tensor | None, within: str = ""
) -> list[LongAttention]:
    """One for each input of the batch, with its padding positions cut out; as `assemble` does for weights."""
    records = layers_of([record for record in recorder.records if record.module.startswith(within)])
    check_layout(records, recorder.batch, model_name, within)
    _check_numbers(records)
    real = real_positions(padding, recorder.batch, records[0].weights.shape[-1])
    return [_one(records, index, real[index], recorder.merged) for index in range(recorder.batch)]


def _one(records: Sequence[Record], index: int, real: Tensor, merged: str | None) -> LongAttention:
    kept = None if bool(real.all()) else real.nonzero()[:, 0]
    stack = tuple(_layer(record, index) for record in records)
    if kept is not None:
        _check_padding(stack, records, real)
        stack = _without_padding(stack, kept)
    held = any(isinstance(layer, HeldRows) for layer in stack)
    return LongAttention(stack, tuple(record.module for record in records), merged if held else None)


def _layer(record: Record, index: int) -> LayerRows:
    if record.kept:
        return record.kept[index]
    seen = record.visible
    return HeldRows(record.weights[index], None if seen is None else seen[min(index, len(seen) - 1)])


def _without_padding(stack: tuple[LayerRows, ...], kept: Tensor) -> tuple[LayerRows, ...]:
    """Every layer cropped; layers that share a mask share the cropped one."""
    masks: dict[tuple[int, ...], Tensor] = {}
    cropped: list[LayerRows] = []
    for layer in stack:
        mask = layer.mask if isinstance(layer, (QueriesAndKeys, HeldRows)) else None
        if mask is not None:
            key = (mask.data_ptr(), *mask.shape, *mask.stride())
            places = kept.to(mask.device)
            mask = masks.setdefault(key, mask[..., places, :][..., places])
        cropped.append(layer.cropped(kept, mask))
    return tuple(cropped)


def _check_numbers(records: Sequence[Record]) -> None:
    for layer, record in enumerate(records, start=1):
        numbers = [part for one in record.kept for part in (one.query, one.key)] or [record.weights]
        if not all(bool(one.isfinite().all()) for one in numbers):
            raise CaptureError(
                f"attention in layer {layer} ({record.module}) is not finite: the model's weights or its input have "
                "NaN or infinity. Check the checkpoint; half precision may need float32: model.float()"
            )


def _check_padding(stack: Sequence[LayerRows], records: Sequence[Record], real: Tensor) -> None:
    """A row that gives weight to padding has other numbers in a batch than alone. Some rows of each layer are asked."""
    for number, (layer, record) in enumerate(zip(stack, records, strict=True), start=1):
        asked = real.nonzero()[:, 0].tolist()
        for row in (asked[place] for place in rows_checked(len(asked))):
            weights = whole_rows(layer, row, row + 1)
            lost = float(weights[..., ~real.to(weights.device)].sum(-1).amax())
            if lost > 1e-4:
                raise CaptureError(
                    f"layer {number} ({record.module}) attends to padding ({lost:.2g} of a row), so a padded batch "
                    "gives other numbers than one input at a time; use batch_size=1"
                )
