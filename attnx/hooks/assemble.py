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
    ConstantLayer,
    Mask,
    MaterializedLayer,
    OffsetLayer,
    TiledLayer,
    offset_mask,
    pad_keys,
)
from attnx.errors import CaptureError, InputError
from attnx.hooks.recompute import BlockTailRun
from attnx.hooks.record import Record, Recorder, ResidualAdd, check_sampling
from attnx.hooks.stacks import EncoderDecoderChain, RecordedCalls, VisionLanguageChain
from attnx.hooks.verification import DeferredCheck, rows_checked, verify

_PADDING_TOLERANCE = 1e-4
"""Of a row: more weight on padding is no rounding."""

_Masks = dict[Any, Mask]


def assemble(
    recorder: Recorder,
    model_name: str,
    *,
    padding: Tensor | None,
    output_padding: Tensor | None = None,
    module: str = "",
    projection: Callable[[], Projection | None] = lambda: None,
) -> list[AttentionTensor]:
    """One for each input of the batch, without its padding.

    `padding` is batch × n, true where a position is real; of an encoder–decoder it is the source's, and
    `output_padding` that of the decoder's input. `module` keeps only modules whose name begins so. `projection`
    measures how an image enters the text.
    """
    check_sampling(recorder.sampling, model_name, module)
    stack = RecordedCalls(recorder.records, recorder.batch, model_name, projection).stack(module)
    records = stack if isinstance(stack, list) else stack.records
    _check_finite(records)
    chain = isinstance(stack, VisionLanguageChain)
    chain = chain or (isinstance(stack, EncoderDecoderChain) and not stack.single_sequence)
    if chain and "rest" in recorder.extras:
        raise CaptureError(
            "what a block does behind one of several attention calls is not known, as in an encoder–decoder: "
            "value_zeroing is defined for one stack; use alti, rollout, or methods=['lrp']"
        )
    if isinstance(stack, VisionLanguageChain):
        return [_vision_language_attention(stack, recorder)]
    batch = range(recorder.batch)
    if isinstance(stack, EncoderDecoderChain) and not stack.single_sequence:
        sources = _real_positions(padding, recorder.batch, stack.source)
        copied = None if output_padding is None else output_padding.repeat(1, stack.copies)
        outputs = _real_positions(copied, recorder.batch, stack.output)
        return [_encoder_decoder_attention(stack, i, sources[i], outputs[i], recorder) for i in batch]
    decoder = isinstance(stack, EncoderDecoderChain) and stack.single_sequence == "self"
    real = _real_positions(output_padding if decoder else padding, recorder.batch, records[0].shape[-1])
    _check_padding_of_batch(records, real)
    # One for each block, whatever the number of inputs: what is found of it is found once.
    tails = [_tail(record, recorder) for record in records] if "rest" in recorder.extras else []
    return [_single_stack_attention(records, i, real[i], recorder, tails) for i in batch]


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


def _single_stack_attention(
    records: Sequence[Record], index: int, real: Tensor, recorder: Recorder, tails: Sequence[BlockTailRun]
) -> AttentionTensor:
    kept = None if bool(real.all()) else real.nonzero()[:, 0]
    masks: _Masks = {}
    layers = [_layer(record, index, masks, recorder, kept, kept) for record in records]
    if tails:  # every kind of layer is a dataclass
        layers = [
            replace(cast(Any, layer), rest=tail.of_input(index, kept))
            for layer, tail in zip(layers, tails, strict=True)
        ]
    if kept is not None:
        _check_padding([(number, layer) for number, layer in enumerate(layers, start=1) if not layer.whole], real)
        cropped = {id(layer.mask): layer.mask for layer in layers}  # layers share masks, also cropped ones
        cropped = {name: mask.cropped(kept) for name, mask in cropped.items()}
        layers = [layer.cropped(kept, cropped[id(layer.mask)]) for layer in layers]
    materialized = any(isinstance(layer, MaterializedLayer) for layer in layers)
    stacked = _stacked(layers, records, recorder)
    return AttentionTensor(tuple(layers), recorder.head if materialized else None, stacked)


def _encoder_decoder_attention(
    chain: EncoderDecoderChain, index: int, source: Tensor, output: Tensor, recorder: Recorder
) -> AttentionTensor:
    """The attention of one input over the positions of both sequences."""
    lengths = int(source.sum()), int(output.sum())
    sequences = {"source": slice(0, lengths[0]), "output": slice(lengths[0], sum(lengths))}
    real = {"source": source, "output": output}
    masks: _Masks = {}
    layers: list[AttentionLayer] = []
    for record, kind in chain.calls:
        queries = "source" if kind == "encoder" else "output"
        keys = "output" if kind == "self" else "source"
        layer = _cropped_layer(record, index, real[queries], real[keys], masks, recorder)
        layers.append(_offset(layer, sequences[queries], sequences[keys], sum(lengths), kind, masks))
    head = recorder.head if any(layer.whole for layer in layers) else None
    return AttentionTensor(tuple(layers), head, sequences=sequences, copies=chain.copies)


def _vision_language_attention(chain: VisionLanguageChain, recorder: Recorder) -> AttentionTensor:
    """The attention of one image, or several, and one text, over the positions of both."""
    length = len(chain.projection.reads)
    whole = length + chain.projection.patches
    sequences = {TEXT: slice(0, length), PICTURE: slice(length, whole)}
    masks: _Masks = {}
    layers: list[AttentionLayer] = []
    for calls in chain.tower:
        parts = [_layer(record, index, masks, recorder) for record in calls for index in range(record.shape[0])]
        tiled = TiledLayer.of(parts)
        layers.append(_offset(tiled, sequences[PICTURE], sequences[PICTURE], whole, VISION, masks))
    reads = {
        position: [length + patch for patch in read] for position, read in enumerate(chain.projection.reads) if read
    }
    layers.append(ConstantLayer.of(reads, whole, layers[0].mask.device))
    for record in chain.decoder:
        layer = _layer(record, 0, masks, recorder)
        layers.append(_offset(layer, sequences[TEXT], sequences[TEXT], whole, DECODER, masks))
    head = recorder.head if any(layer.whole for layer in layers) else None
    return AttentionTensor(tuple(layers), head, sequences=sequences)


def _offset(layer: AttentionLayer, queries: slice, keys: slice, length: int, kind: str, masks: _Masks) -> OffsetLayer:
    """The layer at its place among the positions of all sequences."""
    name = (id(layer.mask), kind)
    if name not in masks:
        masks[name] = offset_mask(layer.mask, queries, keys, length)
    return OffsetLayer(layer, queries, keys, masks[name], kind)


def _cropped_layer(
    record: Record, index: int, real_queries: Tensor, real_keys: Tensor, masks: _Masks, recorder: Recorder
) -> AttentionLayer:
    """Without the padding of either sequence."""
    if bool(real_queries.all()) and bool(real_keys.all()):
        return _layer(record, index, masks, recorder)
    queries, keys = (real.nonzero()[:, 0] for real in (real_queries, real_keys))
    layer = _layer(record, index, masks, recorder, queries, keys)
    _check_padding([(1, layer)], real_keys, real_queries)
    name = ("cropped", id(layer.mask))
    if name not in masks:
        masks[name] = layer.mask.cropped(keys, queries)
    return layer.cropped(keys, masks[name], queries)


def _layer(
    record: Record,
    index: int,
    masks: _Masks,
    recorder: Recorder,
    queries: Tensor | None = None,
    keys: Tensor | None = None,
) -> AttentionLayer:
    """Of one input; what was captured with it is at the positions `queries` and `keys`, None for all."""
    captured = _captured(record, index, queries, keys, recorder)
    if record.weights is None:
        return replace(record.computed[index], captured=captured)
    weights, visible = record.weights[index], record.visible
    mask = None if visible is None else visible[min(index, len(visible) - 1)]
    shape = weights.shape[-2:]
    name = (id(visible), *shape)
    if name not in masks:
        masks[name] = Mask(shape[1], weights.device, mask, queries=None if shape[0] == shape[1] else shape[0])
    return MaterializedLayer(weights, masks[name], module=record.module, captured=captured)


def _captured(
    record: Record, index: int, queries: Tensor | None, keys: Tensor | None, recorder: Recorder
) -> dict[str, Tensor]:
    tensors = {}
    if recorder.extras:
        _check_written(record, recorder)
    if record.values is not None:
        values = record.values[index]
        tensors["values"] = values if keys is None else values[:, keys.to(values.device)]
    if "projections" in recorder.extras:
        tensors["projections"] = _projection(record)
    if "blocks" in recorder.extras:
        tensors |= _residual(record).captured(index, queries)
    if "gates" in recorder.extras:
        gate = torch.ones(1, 1, 1) if record.gate is None else record.gate[index]
        cropped = record.gate is not None and queries is not None
        tensors["gates"] = gate[:, cast(Tensor, queries).to(gate.device)] if cropped else gate
    if recorder.gradients and record.weights is not None:
        tensors["differentiable"] = record.weights
    if record.outputs is not None:
        tensors["outputs"] = record.outputs
    return tensors


def _tail(record: Record, recorder: Recorder) -> BlockTailRun:
    _check_written(record, recorder)
    _projection(record)
    residual = _residual(record)
    if record.block is None or record.block.output is None:
        raise CaptureError(
            f"{record.module} is one of several attention calls of its block, so what follows it alone is not known; "
            "use methods of attention itself (rollout, flow), or methods=['lrp']"
        )
    return BlockTailRun(recorder.model, record.module, residual, record.block)


def _stacked(layers: list[AttentionLayer], records: Sequence[Record], recorder: Recorder) -> Tensor | None:
    """layer × head × query × key, of which the layers become views; None where some layer is not materialized.

    A record whose numbers are copied releases its own, so that they are in memory once.
    """
    shapes = [layer.weights.shape for layer in layers if isinstance(layer, MaterializedLayer)]
    if len(shapes) < len(layers):
        return None
    first = records[0].weights
    if recorder.gradients or first is None:
        return torch.stack([layer.weights for layer in layers if isinstance(layer, MaterializedLayer)])
    stacked = first.new_empty(len(shapes), *shapes[0])
    for number, record in enumerate(records):
        layer = layers[number]
        if isinstance(layer, MaterializedLayer):
            stacked[number] = layer.weights
            layers[number] = replace(layer, weights=stacked[number])
        if recorder.batch == 1:
            record.weights = stacked[number][None]
    return stacked


def _check_written(record: Record, recorder: Recorder) -> None:
    """That values and projection, summed over heads and keys, are what the block wrote."""
    if record.mismatch:
        raise CaptureError(
            f"values and projections of {record.module} are not what it writes: {record.mismatch}. Use methods of "
            "attention itself (raw, rollout, flow), or methods=['lrp']; capture weights without extras"
        )
    if record.gate is not None and "gates" not in recorder.extras:
        by_hand = "ask for the gate, too: extras=('values', 'projections', 'gates')"
        instead = "use methods of attention itself (rollout, flow)" if "blocks" in recorder.extras else by_hand
        raise CaptureError(
            f"{record.module} multiplies what it mixed by a gate of each position before it is projected, so values "
            f"and projections alone are not what it writes; {instead}"
        )


def _projection(record: Record) -> Tensor:
    if record.projection is None:
        raise CaptureError(
            f"no output projection was seen behind the attention of {record.module}: it is no linear map that attnx "
            "knows, it is quantised, or attention went through transformers' interface (flash and flex kernels), which "
            "does not show it; load with attn_implementation='sdpa', or use rollout"
        )
    return record.projection


def _residual(record: Record) -> ResidualAdd:
    if isinstance(record.residual, ResidualAdd):
        return record.residual
    raise record.residual or CaptureError(
        f"no block was seen around the attention of {record.module}, so what it adds to the residual stream is not "
        "known; use methods of attention itself (rollout, flow)"
    )


def _check_finite(records: Sequence[Record]) -> None:
    def infinite(layer: int, record: Record) -> CaptureError:
        return CaptureError(
            f"attention in layer {layer} ({record.module}) is not finite: the model's weights or its input have "
            "NaN or infinity. Check the checkpoint; half precision may need float32: model.float()"
        )

    checks = []
    for layer, record in enumerate(records, start=1):
        checks += [DeferredCheck(total.isfinite(), partial(infinite, layer, record)) for total in record.totals()]
    verify(checks)


def _check_padding_of_batch(records: Sequence[Record], real: Tensor) -> None:
    """A row that gives weight to padding has other numbers in a batch than alone; checked where weights are kept."""
    if bool(real.all()):
        return
    checks = []
    for number, record in enumerate(records, start=1):
        if record.weights is not None:
            weights = record.weights.detach()
            rows, padding = real[:, None, :, None].to(weights.device), (~real)[:, None, :, None].to(weights)
            checks.append(_no_padding_is_read(number, record.module, ((weights @ padding) * rows).amax()))
    verify(checks)


def _check_padding(
    layers: Sequence[tuple[int, AttentionLayer]], real: Tensor, real_queries: Tensor | None = None
) -> None:
    """The same for the layers of one input, each with its number: of computed ones, on some rows."""
    queries: list[int] = (real if real_queries is None else real_queries).nonzero()[:, 0].tolist()
    sample = [queries[index] for index in rows_checked(len(queries))]
    checks = []
    for number, layer in layers:
        if layer.whole:
            rows = layer.rows(layer.query_slice.start, layer.query_slice.stop).weights[:, queries]
        else:
            rows = torch.cat([pad_keys(layer.rows(row, row + 1), layer.mask.length) for row in sample], dim=1)
        lost = rows[..., ~real.to(rows.device)].detach().sum(-1).amax()
        checks.append(_no_padding_is_read(number, layer.module, lost))
    verify(checks)


def _no_padding_is_read(number: int, module: str, lost: Tensor) -> DeferredCheck:
    def error() -> CaptureError:
        return CaptureError(
            f"layer {number} ({module}) attends to padding ({float(lost):.2g} of a row), so a padded batch gives "
            "other numbers than one input at a time; use batch_size=1"
        )

    return DeferredCheck(lost <= _PADDING_TOLERANCE, error)
