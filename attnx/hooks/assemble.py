"""From the records of a batch to the attention of each input, or an error that says why there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from attnx.adapters import PICTURE, TEXT, Projection
from attnx.attention import (
    DECODER,
    VISION,
    AttentionLayer,
    AttentionTensor,
    BlockTail,
    ConstantLayer,
    Mask,
    MaterializedLayer,
    OffsetLayer,
    TiledLayer,
    offset_mask,
    pad_keys,
)
from attnx.errors import CaptureError, InputError
from attnx.hooks.block_tail import Rest
from attnx.hooks.record import Claim, Joined, Record, Recorder, check_sampling, settle
from attnx.hooks.stacks import Chain, Pictured, Seen
from attnx.hooks.verification import rows_checked

_LOST = 1e-4
"""Of a row: more weight on padding is no rounding."""


def assemble(
    recorder: Recorder,
    model_name: str,
    *,
    padding: Tensor | None,
    output_padding: Tensor | None = None,
    module: str = "",
    projection: Callable[[], Projection | None] = lambda: None,
) -> list[AttentionTensor]:
    """One for each input of the batch, with its padding positions cut out.

    `padding` is batch × n, true where a position is real; of an encoder–decoder it is the source's, and
    `output_padding` that of what the decoder reads. `module` keeps only modules whose name begins so. `projection`
    measures how a picture enters the text, where that is asked.
    """
    check_sampling(recorder.sampling, model_name, module)
    chain = Seen(recorder.records, recorder.batch, model_name, projection).stack(module)
    records = chain if isinstance(chain, list) else chain.records
    _check_numbers(records)
    if isinstance(chain, Pictured):
        _check_one_stack(recorder)
        return [_joined_by_projector(chain, recorder)]
    if isinstance(chain, Chain) and not chain.alone:
        _check_one_stack(recorder)
        sources = _real_positions(padding, recorder.batch, chain.source)
        written = None if output_padding is None else output_padding.repeat(1, chain.copies)
        outputs = _real_positions(written, recorder.batch, chain.output)
        return [_chained(chain, index, sources[index], outputs[index], recorder) for index in range(recorder.batch)]
    tensor = output_padding if isinstance(chain, Chain) and chain.alone == "self" else padding
    real = _real_positions(tensor, recorder.batch, records[0].shape[-1])
    _check_padding_of_all(records, real)
    # One for each block, whatever the number of inputs: what is found of it is found once.
    rests = [_rest(record, recorder) for record in records] if "rest" in recorder.extras else []
    return [_one(records, index, real[index], recorder, rests) for index in range(recorder.batch)]


def _check_one_stack(recorder: Recorder) -> None:
    if "rest" in recorder.extras:
        raise CaptureError(
            "what a block does behind one of several attention calls is not known, as in an encoder–decoder: "
            "value_zeroing is defined for one stack; use alti, rollout, or references=('lrp',)"
        )


def _real_positions(padding: Tensor | None, batch: int, length: int) -> Tensor:
    """batch × n, true where a position is no padding: all, unless the attention mask says otherwise."""
    if padding is not None and padding.shape == (batch, length):
        if not bool(padding.any(-1).all()):
            raise InputError("the attention mask hides every position of an input; give 1 for those that are read")
        return padding
    if padding is not None and not bool(padding.all()):
        raise CaptureError(
            f"the attention mask is {tuple(padding.shape)} but attention is over {length} positions, so padding "
            "cannot be cut out; give one input at a time, without padding"
        )
    return torch.ones(batch, length, dtype=torch.bool)


def _one(
    records: Sequence[Record], index: int, real: Tensor, recorder: Recorder, rests: Sequence[Rest]
) -> AttentionTensor:
    kept = None if bool(real.all()) else real.nonzero()[:, 0]
    masks: dict[Any, Mask] = {}
    layers = [_level(record, index, masks, _brought(record, index, kept, kept, recorder)) for record in records]
    if rests:
        layers = [_with_rest(level, rest.of_input(index, kept)) for level, rest in zip(layers, rests, strict=True)]
    if kept is not None:
        _check_padding([(number, layer) for number, layer in enumerate(layers, start=1) if not layer.whole], real)
        layers = _without_padding(layers, kept)
    held = any(isinstance(level, MaterializedLayer) for level in layers)
    stacked = _stacked(layers, records, recorder)
    return AttentionTensor(tuple(layers), recorder.head if held else None, stacked)


def _chained(found: Chain, index: int, source: Tensor, output: Tensor, recorder: Recorder) -> AttentionTensor:
    """The attention of one input over the positions of both streams."""
    lengths = int(source.sum()), int(output.sum())
    sequences = {"source": slice(0, lengths[0]), "output": slice(lengths[0], sum(lengths))}
    real = {"source": source, "output": output}
    masks: dict[Any, Mask] = {}
    layers: list[AttentionLayer] = []
    for call in found.calls:
        own, over = "source" if call.kind == "encoder" else "output", "output" if call.kind == "self" else "source"
        level = _cropped(call.record, index, real[own], real[over], masks, recorder)
        name = (id(level.mask), call.kind)
        if name not in masks:
            masks[name] = offset_mask(level.mask, sequences[own], sequences[over], sum(lengths))
        layers.append(OffsetLayer(level, sequences[own], sequences[over], masks[name], call.kind))
    head = recorder.head if any(level.whole for level in layers) else None
    return AttentionTensor(tuple(layers), head, sequences=sequences, copies=found.copies)


def _joined_by_projector(found: Pictured, recorder: Recorder) -> AttentionTensor:
    """The attention of one picture, or several, and one text, over the positions of both."""
    length, whole = len(found.projection.reads), len(found.projection.reads) + found.projection.patches
    sequences = {TEXT: slice(0, length), PICTURE: slice(length, whole)}
    masks: dict[Any, Mask] = {}

    def placed(level: AttentionLayer, sequence: str, kind: str) -> OffsetLayer:
        name = (id(level.mask), kind)
        if name not in masks:
            masks[name] = offset_mask(level.mask, sequences[sequence], sequences[sequence], whole)
        return OffsetLayer(level, sequences[sequence], sequences[sequence], masks[name], kind)

    layers: list[AttentionLayer] = []
    for layer in found.tower:
        parts = [
            _level(record, index, masks, _brought(record, index, None, None, recorder))
            for record in layer
            for index in range(record.shape[0])
        ]
        layers.append(placed(TiledLayer.of(parts), PICTURE, VISION))
    reads = {place: [length + patch for patch in read] for place, read in enumerate(found.projection.reads) if read}
    layers.append(ConstantLayer.of(reads, whole, layers[0].mask.device))
    for record in found.decoder:
        level = _level(record, 0, masks, _brought(record, 0, None, None, recorder))
        layers.append(placed(level, TEXT, DECODER))
    head = recorder.head if any(level.whole for level in layers) else None
    return AttentionTensor(tuple(layers), head, sequences=sequences)


def _cropped(
    record: Record, index: int, looking: Tensor, read: Tensor, masks: dict[Any, Mask], recorder: Recorder
) -> AttentionLayer:
    """A level of one or two streams without the padding of either."""
    if bool(looking.all()) and bool(read.all()):
        return _level(record, index, masks, _brought(record, index, None, None, recorder))
    queries, keys = (real.nonzero()[:, 0] for real in (looking, read))
    level = _level(record, index, masks, _brought(record, index, queries, keys, recorder))
    _check_padding([(1, level)], read, looking)
    name = ("cropped", id(level.mask))
    if name not in masks:
        masks[name] = level.mask.cropped(keys, queries)
    return level.cropped(keys, masks[name], queries)


def _level(record: Record, index: int, masks: dict[Any, Mask], captured: dict[str, Tensor]) -> AttentionLayer:
    if record.weights is None:
        return replace(record.computed[index], captured=captured)
    weights, seen = record.weights[index], record.visible
    tensor = None if seen is None else seen[min(index, len(seen) - 1)]
    queries, keys = weights.shape[-2:]
    name = (id(seen), queries, keys)
    if name not in masks:
        masks[name] = Mask(keys, weights.device, tensor, queries=None if queries == keys else queries)
    return MaterializedLayer(weights, masks[name], record.module, captured)


def _brought(
    record: Record, index: int, queries: Tensor | None, keys: Tensor | None, recorder: Recorder
) -> dict[str, Tensor]:
    """What else was asked for of a call, at the positions that are no padding; None is all of them."""
    result = {}
    if recorder.extras:
        _check_written(record, recorder)
    if record.values is not None:
        values = record.values[index]
        result["values"] = values if keys is None else values[:, keys.to(values.device)]
    if "projections" in recorder.extras:
        result["projections"] = _projection(record)
    if "blocks" in recorder.extras:
        result |= _joined(record).captured(index, queries)
    if "gates" in recorder.extras:
        result["gates"] = _gates(record, index, queries)
    if recorder.gradients and record.weights is not None:
        result["differentiable"] = record.weights
    if record.outputs is not None:
        result["outputs"] = record.outputs
    return result


def _rest(record: Record, recorder: Recorder) -> Rest:
    """What the block around a call does behind it."""
    _check_written(record, recorder)
    _projection(record)
    joined = _joined(record)
    if record.block is None or record.block.left is None:
        raise CaptureError(
            f"{record.module} is one of several attention calls of its block, so what follows it alone is not known; "
            "use methods of attention itself (rollout, flow), or references=('lrp',)"
        )
    return Rest(recorder.model, record.module, joined, record.block)


def _with_rest(level: AttentionLayer, rest: BlockTail) -> AttentionLayer:
    known: AttentionLayer = replace(cast(Any, level), rest=rest)  # every way to keep a level is a dataclass
    return known


def _stacked(layers: list[AttentionLayer], records: Sequence[Record], recorder: Recorder) -> Tensor | None:
    """layer × head × query × key, of which the levels become views; None where some level is not held.

    A record whose numbers are copied lets go of its own, so that they are held once.
    """
    held = [level.weights.shape for level in layers if isinstance(level, MaterializedLayer)]
    if len(held) < len(layers):
        return None
    first = records[0].weights
    if recorder.gradients or first is None:
        return torch.stack([level.weights for level in layers if isinstance(level, MaterializedLayer)])
    stacked = first.new_empty(len(held), *held[0])
    for number, record in enumerate(records):
        level = layers[number]
        if isinstance(level, MaterializedLayer):
            stacked[number] = level.weights
            layers[number] = replace(level, weights=stacked[number])
        if recorder.batch == 1:
            record.weights = stacked[number][None]
    return stacked


def _without_padding(layers: Sequence[AttentionLayer], kept: Tensor) -> list[AttentionLayer]:
    """Every level cropped; levels that share a mask share the cropped one."""
    masks = {id(level.mask): level.mask for level in layers}
    cropped = {name: mask.cropped(kept) for name, mask in masks.items()}
    return [level.cropped(kept, cropped[id(level.mask)]) for level in layers]


def _check_written(record: Record, recorder: Recorder) -> None:
    """That values and projection, summed over heads and keys, are what the block wrote."""
    if record.unlike:
        raise CaptureError(
            f"values and projections of {record.module} are not what it writes: {record.unlike}. Use methods of "
            "attention itself (raw, rollout, flow), or references=('lrp',); capture weights without extras"
        )
    by_hand = "ask for the gate, too: extras=('values', 'projections', 'gates')"
    instead = "use methods of attention itself (rollout, flow)" if "blocks" in recorder.extras else by_hand
    if record.gate is not None and "gates" not in recorder.extras:
        raise CaptureError(
            f"{record.module} multiplies what it mixed by a gate of each position before it is projected, so values "
            f"and projections alone are not what it writes; {instead}"
        )


def _gates(record: Record, index: int, kept: Tensor | None) -> Tensor:
    if record.gate is None:
        return torch.ones(1, 1, 1)
    gate = record.gate[index]
    return gate if kept is None else gate[:, kept.to(gate.device)]


def _projection(record: Record) -> Tensor:
    if record.projection is None:
        raise CaptureError(
            f"no output projection was seen behind the attention of {record.module}: it is no linear map that attnx "
            "knows, it is quantised, or attention went through transformers' interface (flash and flex kernels), which "
            "does not show it; load with attn_implementation='sdpa', or use rollout"
        )
    return record.projection


def _joined(record: Record) -> Joined:
    if isinstance(record.joined, Joined):
        return record.joined
    raise record.joined or CaptureError(
        f"no block was seen around the attention of {record.module}, so what it adds to the residual stream is not "
        "known; use methods of attention itself (rollout, flow)"
    )


def _check_numbers(records: Sequence[Record]) -> None:
    def infinite(layer: int, record: Record) -> CaptureError:
        return CaptureError(
            f"attention in layer {layer} ({record.module}) is not finite: the model's weights or its input have "
            "NaN or infinity. Check the checkpoint; half precision may need float32: model.float()"
        )

    claims = []
    for layer, record in enumerate(records, start=1):
        claims += [Claim(total.isfinite(), partial(infinite, layer, record)) for total in record.totals()]
    settle(claims)


def _check_padding_of_all(records: Sequence[Record], real: Tensor) -> None:
    """A row that gives weight to padding has other numbers in a batch than alone: asked of all that is held."""
    if bool(real.all()):
        return
    claims = []
    for number, record in enumerate(records, start=1):
        if record.weights is not None:
            weights = record.weights.detach()
            rows, padding = real[:, None, :, None].to(weights.device), (~real)[:, None, :, None].to(weights)
            lost = ((weights @ padding) * rows).amax()
            claims.append(Claim(lost <= _LOST, partial(_padding_is_read, number, record.module, lost)))
    settle(claims)


def _check_padding(layers: Sequence[tuple[int, AttentionLayer]], real: Tensor, looking: Tensor | None = None) -> None:
    """The same for the levels of one input, each with its number.

    Of a level that is held all rows are asked, of one that is computed some. `looking` are the queries, where they are
    of another stream.
    """
    asked: list[int] = (real if looking is None else looking).nonzero()[:, 0].tolist()
    some = [asked[place] for place in rows_checked(len(asked))]
    claims = []
    for number, level in layers:
        length = level.mask.length
        if level.whole:
            rows = level.rows(level.own.start, level.own.stop).weights[:, asked]
        else:
            rows = torch.cat([pad_keys(level.rows(row, row + 1), length) for row in some], dim=1)
        lost = rows[..., ~real.to(rows.device)].detach().sum(-1).amax()
        claims.append(Claim(lost <= _LOST, partial(_padding_is_read, number, level.module, lost)))
    settle(claims)


def _padding_is_read(number: int, module: str, lost: Tensor) -> CaptureError:
    return CaptureError(
        f"layer {number} ({module}) attends to padding ({float(lost):.2g} of a row), so a padded batch gives "
        "other numbers than one input at a time; use batch_size=1"
    )
