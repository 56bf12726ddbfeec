"""Running a model on many inputs in batches: which inputs share a batch, and what a batch consists of."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from inspect import Parameter, signature
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from attnx.adapters import Adapter, PreparedInput, base_model, takes_logits_to_keep
from attnx.errors import InputError
from attnx.hooks.capture import run_model
from attnx.hooks.patching import eval_mode
from attnx.hooks.tracing import Entry
from attnx.targets import first_output

_DENSE = ("pixel_values", "input_features", "input_values")
"""Inputs that are numbers with a gradient, and are embedded by no table."""


def gradient_entry(adapter: Adapter, model: nn.Module, inputs: dict[str, Any]) -> tuple[dict[str, Any], Entry]:
    """The inputs, dense ones as leaves of the graph, and where gradients end: in both sequences of an encoder–decoder,
    at pixels and tokens of an image with a text."""
    dense = next((name for name in _DENSE if name in inputs), None)
    if dense is not None:
        inputs = {**inputs, dense: inputs[dense].detach().clone().requires_grad_()}
    source: nn.Module | Tensor = adapter.embedding_module(model) if dense is None else inputs[dense]
    if dense is not None and "input_ids" in inputs:
        return inputs, (source, adapter.embedding_module(model))
    if adapter.decoder_embeddings is None:
        return inputs, source
    return inputs, (source, adapter.decoder_embeddings(model))


R = TypeVar("R")

MAX_BATCH_POSITIONS = 2_048
"""Positions in one batch, padding included: on a CPU more is slower, for it no longer fits into the caches."""

_ENOUGH, _PADDING = 512, 1 / 8
"""A batch of so many positions is closed before more than an eighth of it is padding, which costs as much as text."""

_ON_AN_ACCELERATOR = 8 * MAX_BATCH_POSITIONS

_LOGITS_AT_ONCE = 2**26
"""256 MB: a batch of a language model has a logit for each word of its vocabulary at each position."""

_TOLERANCE = 1e-5
"""Of the largest number: rounding in float32 differs less between batch shapes. A false alarm costs only time."""

_ignores_padding: weakref.WeakKeyDictionary[nn.Module, dict[str, bool]] = weakref.WeakKeyDictionary()


def run_in_batches(
    model: nn.Module,
    prepared: Sequence[PreparedInput],
    run: Callable[[Sequence[PreparedInput]], R],
    *,
    first: Callable[[Sequence[PreparedInput]], Sequence[Tensor]],
    pad_id: int | None,
    entry: str = "input_ids",
    size: int | None = None,
    at_most: int = MAX_BATCH_POSITIONS,
    together: bool = True,
    lengths: Sequence[int] | None = None,
    shapes: Sequence[tuple[int, ...]] | None = None,
) -> Iterator[tuple[list[int], R]]:
    """The indices of the inputs that ran together, and what `run` gave for them, from short inputs to long ones.

    A batch has at most `size` inputs and `at_most` positions, padding included, and at least one input. Inputs of
    different length share one only if they may go `together`, and the model does not read padding: `first` gives its
    output for the first of some inputs, which the others must not change. Images share one when their shapes are equal.
    `lengths` and `shapes` are given where inputs are prepared only when they are read.
    """
    lengths = [len(item.positions) for item in prepared] if lengths is None else lengths
    shapes = [item.shape for item in prepared] if shapes is None else shapes
    # Inputs with a shape share a batch only with equal shapes, so that nothing is padded.
    together = (
        together and size != 1 and (all(shapes) or _can_be_padded(model, prepared, lengths, pad_id, first, entry))
    )
    for rows in grouped(lengths, shapes, together=together, size=size, at_most=at_most):
        yield rows, run([prepared[row] for row in rows])


def grouped(
    lengths: Sequence[int],
    shapes: Sequence[tuple[int, ...]],
    *,
    together: bool = True,
    size: int | None = None,
    at_most: int = MAX_BATCH_POSITIONS,
) -> Iterator[list[int]]:
    """The indices of inputs that run together, from short ones to long ones."""
    order = sorted(range(len(lengths)), key=lambda index: (lengths[index], shapes[index]))
    batch: list[int] = []
    for index in order:
        # This input is the longest so far, so the whole batch is padded to its length.
        padded, real = lengths[index] * (len(batch) + 1), sum(lengths[other] for other in (*batch, index))
        wasteful = real >= _ENOUGH and padded - real > _PADDING * padded
        full = len(batch) == size or padded > at_most or wasteful
        same_length = together or not batch or lengths[index] == lengths[batch[0]]
        if batch and (full or not same_length or shapes[index] != shapes[batch[0]]):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _can_be_padded(
    model: nn.Module,
    prepared: Sequence[PreparedInput],
    lengths: Sequence[int],
    pad_id: int | None,
    first: Callable[[Sequence[PreparedInput]], Sequence[Tensor]],
    entry: str,
) -> bool:
    """Whether an input gives the same padded as alone; tried once for each model and kind of input.

    Some models read padding: XLNet answers from its last position, ConvBERT convolves over it, and classifiers on
    decoders look for the padding token, which embeddings do not have.
    """
    if not lengths or min(lengths) == max(lengths):
        return True
    if pad_id is None:
        return False
    results = _ignores_padding.setdefault(model, {})
    if entry not in results:
        short, long = (prepared[lengths.index(end)] for end in (min(lengths), max(lengths)))
        alone = first([short])
        try:
            results[entry] = _same(alone, first([short, long]))
        except Exception:
            results[entry] = False
    return results[entry]


def reset_padding_check(model: nn.Module) -> None:
    """Try again what padding does to this model, so that results depend on no earlier inputs."""
    _ignores_padding.pop(model, None)


def _same(alone: Sequence[Tensor], padded: Sequence[Tensor]) -> bool:
    return all(
        tensor.shape == other.shape and torch.allclose(tensor.float(), other.float(), atol=slack(other), rtol=0)
        for tensor, other in zip(alone, padded, strict=True)
    )


def slack(tensor: Tensor) -> float:
    """How far numbers like these may differ by rounding alone."""
    precise = tensor.dtype in (torch.float32, torch.float64)
    return (_TOLERANCE if precise else 2e-2) * (1 + float(tensor.abs().amax()))


def max_batch_positions(model: nn.Module, *, all_answers: bool = False) -> int:
    """The size of a batch. Where every position gets logits over a vocabulary, they take the most memory.

    Models that take `logits_to_keep` compute no others, unless `all_answers` are needed.
    """
    device, _ = _device_and_dtype(model)
    most = MAX_BATCH_POSITIONS if device is None or device.type == "cpu" else _ON_AN_ACCELERATOR
    embeddings = getattr(model, "get_output_embeddings", lambda: None)()  # a wrapper may have none
    vocabulary = getattr(embeddings, "weight", None)
    if vocabulary is None or (takes_logits_to_keep(model) and not all_answers):
        return most
    return max(1, min(most, _LOGITS_AT_ONCE // len(vocabulary)))


def collate(model: nn.Module, prepared: Sequence[PreparedInput], pad_id: int | None) -> dict[str, Any]:
    """The model's keyword arguments for a batch, on its device; floating inputs in its precision."""
    accepted = _accepted(model)
    device, dtype = _device_and_dtype(model)
    batch = {}
    for name in prepared[0].inputs:
        if accepted is None or name in accepted:
            fill = (pad_id or 0) if name == "input_ids" else 0
            rows = [item.inputs[name] for item in prepared]
            stacked = torch.cat(rows) if name in prepared[0].joined else _stacked(name, rows, fill)
            batch[name] = stacked.to(device, dtype if stacked.is_floating_point() else stacked.dtype)
    return {**batch, **prepared[0].options}


def _stacked(name: str, rows: list[Tensor], fill: int) -> Tensor:
    if rows[0].ndim == 1 or name.endswith("inputs_embeds"):
        return pad_sequence(rows, batch_first=True, padding_value=fill)
    return torch.stack(rows)


def padding_id(model: nn.Module, processor: Any) -> int | None:
    """The id that pads a batch. Without one a batch is one input: some heads find the last token by looking for it."""
    for owner in (getattr(model, "config", None), processor):
        token_id = getattr(owner, "pad_token_id", None)
        if isinstance(token_id, int) and token_id >= 0:
            return token_id
    return None


def _device_and_dtype(model: nn.Module) -> tuple[torch.device | None, torch.dtype]:
    """Where the inputs go, None to leave them: weights that are offloaded have no device until they are used."""
    first = next(model.parameters(), None)
    if first is None:
        raise InputError(
            f"{type(model).__name__} has no weights, so there is nothing to explain; give the model itself"
        )
    device = getattr(model, "device", first.device)
    return None if device.type == "meta" else device, first.dtype


def _accepted(model: nn.Module) -> set[str] | None:
    """Names that the model's forward takes, under a wrapper also its own; None when it takes any."""
    parameters = signature(model.forward).parameters.values()
    named = {
        parameter.name
        for parameter in parameters
        if parameter.kind not in (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)
    }
    if not any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters):
        return named
    inner = base_model(model)
    if inner is not model:
        return named | (_accepted(inner) or set())
    return named if named & {"input_ids", "pixel_values", "input_features", "input_values"} else None


T = TypeVar("T")


def map_outputs(
    model: nn.Module, processor: Any, prepared: Sequence[PreparedInput], read: Callable[[int, Any, int], T]
) -> list[T]:
    """For each input, in order, what `read` makes of its index, the output of its batch and its index there."""
    pad_id = padding_id(model, processor)
    results: dict[int, T] = {}
    with eval_mode(model):
        for rows, output in run_in_batches(
            model,
            prepared,
            lambda batch: run_model(model, collate(model, batch, pad_id)),
            first=partial(first_outputs, model, pad_id),
            pad_id=pad_id,
            at_most=max_batch_positions(model, all_answers=True),
        ):
            results |= {row: read(row, output, index) for index, row in enumerate(rows)}
    return [results[row] for row in range(len(prepared))]


def first_outputs(model: nn.Module, pad_id: int | None, prepared: Sequence[PreparedInput]) -> list[Any]:
    """The model's output for the first of some inputs, padded to the longest of them."""
    return first_output(model, collate(model, prepared, pad_id), len(prepared[0].positions))
