"""From the records of a batch to one `AttentionTensor` per input, or an error that says why there is none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from attnx.attention import AttentionTensor
from attnx.capture.record import Record, Recorder
from attnx.errors import CaptureError


def assemble(recorder: Recorder, model_name: str, *, padding: Tensor | None, within: str = "") -> list[AttentionTensor]:
    """One tensor for each input of the batch, with its padding positions cut out.

    `padding` is batch × n, true where a position is real. `within` keeps only modules whose name begins so.
    """
    records = layers_of([record for record in recorder.records if record.module.startswith(within)])
    check_layout(records, recorder.batch, model_name, within)
    _check_numbers(records)
    real = real_positions(padding, recorder.batch, records[0].weights.shape[-1])
    return [_one(records, index, real[index], recorder) for index in range(recorder.batch)]


def real_positions(padding: Tensor | None, batch: int, length: int) -> Tensor:
    """batch × n, true where a position is no padding: all, unless the attention mask says otherwise."""
    if padding is not None and padding.shape == (batch, length):
        return padding
    if padding is not None and not bool(padding.all()):
        raise CaptureError(
            f"the attention mask is {tuple(padding.shape)} but attention is over {length} positions, so padding "
            "cannot be cut out; give one input at a time, without padding"
        )
    return torch.ones(batch, length, dtype=torch.bool)


def layers_of(records: Sequence[Record]) -> list[Record]:
    """Without a pooling head, in which a single learned query reads all positions: it is no layer of the stack."""
    lengths = {record.weights.shape[-1] for record in records if record.weights.shape[-2] == record.weights.shape[-1]}
    return [
        record
        for record in records
        if not (record.weights.shape[-2] == 1 and record.weights.shape[-1] in lengths - {1})
    ]


def _one(records: Sequence[Record], index: int, real: Tensor, recorder: Recorder) -> AttentionTensor:
    kept = None if bool(real.all()) else real.nonzero()[:, 0]
    if kept is not None:
        _check_padding(records, index, kept)
    weights = _stack(records, index, kept, recorder)
    values = projections = None
    if "values" in recorder.extras:
        places = slice(None) if kept is None else kept
        values = tuple(record.values[index][:, places] for record in records if record.values is not None)
    if "projections" in recorder.extras:
        projections = _projections(records)
    return AttentionTensor(
        weights=weights,
        visible=_visible(records, index, kept, weights),
        modules=tuple(record.module for record in records),
        merged=recorder.merged,
        values=values,
        projections=projections,
        graph=tuple(record.weights for record in records) if recorder.graph else None,
    )


def _stack(records: Sequence[Record], index: int, kept: Tensor | None, recorder: Recorder) -> Tensor:
    """layer × head × query × key. A record whose numbers are copied lets go of its own, so that they are held once."""
    first = _crop(records[0].weights[index], kept)
    if recorder.graph:
        return torch.stack([_crop(record.weights[index], kept) for record in records])
    weights = first.new_empty(len(records), *first.shape)
    for layer, record in enumerate(records):
        weights[layer] = _crop(record.weights[index], kept)
        if recorder.batch == 1:
            record.weights = weights[layer][None]
    return weights


def _visible(records: Sequence[Record], index: int, kept: Tensor | None, weights: Tensor) -> Tensor:
    """layer × query × key; layers that share one mask share its memory."""
    layers, length = weights.shape[0], weights.shape[-1]
    everything = torch.ones((), dtype=torch.bool, device=weights.device).expand(length, length)
    masks = {id(record.visible): record.visible for record in records}
    seen = {
        key: everything if mask is None else _crop(mask[min(index, len(mask) - 1)], kept) for key, mask in masks.items()
    }
    if len(seen) == 1:
        return next(iter(seen.values())).expand(layers, length, length)
    return torch.stack([seen[id(record.visible)] for record in records])


def _crop(matrix: Tensor, kept: Tensor | None) -> Tensor:
    """… × query × key without the rows and columns of padding."""
    if kept is None:
        return matrix
    kept = kept.to(matrix.device)
    return matrix[..., kept, :][..., kept]


def _projections(records: Sequence[Record]) -> tuple[Tensor, ...]:
    missing = [record.module for record in records if record.projection is None]
    if missing:
        raise CaptureError(
            f"no output projection was seen behind the attention of {missing[0]}: it is no linear map that attnx "
            "knows, it is quantised, or backend='interface' was used, which does not see it"
        )
    return tuple(record.projection for record in records if record.projection is not None)


def check_layout(records: Sequence[Record], batch: int, model_name: str, within: str) -> None:
    if not records:
        where = f" below {within!r}" if within else ""
        raise CaptureError(
            f"no attention was seen in {model_name}{where}: it has none (a convolution or state-space model), or has "
            "it in blocks or hashes without an n × n map; attnx explains softmax attention over all positions"
        )
    for record in records:
        found, _, queries, keys = record.weights.shape
        if found != batch:
            raise CaptureError(
                f"attention in {record.module} is in windows ({found // batch} windows of {keys} positions): a layout "
                f"such as Swin's has no n × n map over the whole input, and attnx does not explain {model_name}"
            )
        if queries != keys:
            raise CaptureError(
                f"attention in {record.module} is {queries} × {keys}, not square: cross-attention, pooling, a banded "
                "layout or a cached step of generation. For an encoder–decoder explain model.get_encoder(); for a part "
                "of the model name it with within='…'"
            )
    _check_one_stack(records)


def _check_one_stack(records: Sequence[Record]) -> None:
    """Layers must follow one another: two towers, or self- and cross-attention in turn, are not one stack."""
    stacks: dict[tuple[str, int], int] = {}
    for record in records:
        key = (re.sub(r"\d+", "#", record.module), record.weights.shape[-1])
        stacks[key] = stacks.get(key, 0) + 1
    if len(stacks) > 1:
        found = "; ".join(f"{name} ({count} layers of {length} positions)" for (name, length), count in stacks.items())
        first = next(iter(stacks))[0].split(".#")[0]
        raise CaptureError(
            f"the model has several stacks of attention: {found}. Choose one with within={first!r}, or pass that "
            "sub-model"
        )
    for one, other in pairwise(records):
        if one.module == other.module and one.same_as(other):
            raise CaptureError(
                f"{one.module} uses the same attention twice in one layer (as DiffLlama does): the layer is more than "
                "a mixture by its weights, and attnx does not follow it"
            )


def _check_numbers(records: Sequence[Record]) -> None:
    for layer, record in enumerate(records, start=1):
        if not bool(record.weights.isfinite().all()):
            raise CaptureError(
                f"attention in layer {layer} ({record.module}) is not finite: the model's weights or its input have "
                "NaN or infinity. Check the checkpoint; half precision may need float32: model.float()"
            )


def _check_padding(records: Sequence[Record], index: int, real: Tensor) -> None:
    for layer, record in enumerate(records, start=1):
        kept = real.to(record.weights.device)
        rows = record.weights[index][..., kept, :]
        lost = float((rows.sum(-1) - rows[..., kept].sum(-1)).amax())
        if lost > 1e-4:
            raise CaptureError(
                f"layer {layer} ({record.module}) attends to padding ({lost:.2g} of a row), so a padded batch gives "
                "other numbers than one input at a time; use batch_size=1"
            )
