"""Texts that enter as embeddings: the answer must be that of the token ids, and the mean of all is no word at all."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import replace
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from attnx.answer.registry import numbers_of
from attnx.capturing.capture import answer_of
from attnx.capturing.frozen.sink_values import Check, on_device_of, weights_check
from attnx.capturing.untouched import switched
from attnx.capturing.watch import undisturbed
from attnx.errors import CaptureError, InputError, out_of_memory
from attnx.inputs.adapter import Adapter, Prepared
from attnx.running.batches import collate, padding_id, slack

_AT_ONCE = 8_192
"""Tokens that are embedded together for the mean."""

_same: weakref.WeakKeyDictionary[nn.Module, bool | None] = weakref.WeakKeyDictionary()
_takes_means: weakref.WeakKeyDictionary[nn.Module, bool] = weakref.WeakKeyDictionary()
_means: weakref.WeakKeyDictionary[nn.Module, tuple[Check, Tensor]] = weakref.WeakKeyDictionary()


ENTRIES = {"input_ids": "inputs_embeds", "decoder_input_ids": "decoder_inputs_embeds"}
"""By which names ids go into a model, and by which their embeddings."""


def takes_embeddings(model: nn.Module) -> bool:
    return "inputs_embeds" in signature(model.forward).parameters


def same_by_embeddings(model: nn.Module, adapter: Adapter, processor: Any, example: Prepared) -> bool | None:
    """Whether embeddings lead to the answer that token ids lead to; tried once for each model.

    None where the model does not run on embeddings alone: it takes none, or needs the ids as well (DeepSeek-V4).
    """
    if not takes_embeddings(model):
        return None
    if model not in _same:
        pad_id = padding_id(model, processor)
        with undisturbed(model):
            by_id = numbers_of(model, answer_of(model, collate(model, [example], pad_id)))
        if by_id is None:
            raise InputError(f"{type(model).__name__} predicts nothing; load it with a head")
        output = _output(model, lambda: embedded(model, adapter, example), pad_id)
        numbers = None if output is None else numbers_of(model, output)
        _same[model] = None if numbers is None else torch.allclose(by_id, numbers, atol=slack(by_id), rtol=0)
    return _same[model]


def takes_means(model: nn.Module, processor: Any, blanked: Callable[[], Prepared]) -> bool:
    """Whether the model runs on an embedding that is no row of its table; Gemma 4 looks for the row."""
    if model not in _takes_means:
        _takes_means[model] = _output(model, blanked, padding_id(model, processor)) is not None
    return _takes_means[model]


def _output(model: nn.Module, made: Callable[[], Prepared], pad_id: int | None) -> Any:
    """What the model returns for this input, which it need not be able to read: None where it fails."""
    try:
        with undisturbed(model):
            return answer_of(model, collate(model, [made()], pad_id))
    except Exception as error:  # whatever a model raises that needs ids
        if out_of_memory(error):
            raise
        return None


def has_mean(model: nn.Module, adapter: Adapter) -> bool:
    """Whether the embedding is a table, and not a function."""
    try:
        return isinstance(getattr(adapter.embedding_module(model), "num_embeddings", None), int)
    except CaptureError:  # it names none
        return False


def embedded(model: nn.Module, adapter: Adapter, prepared: Prepared) -> Prepared:
    """The same input by its embeddings."""
    inputs = dict(prepared.inputs)
    with switched(gradients=False):
        for name in prepared.ids:
            module = embedding_of(model, adapter, name)
            ids = inputs.pop(name)
            inputs[ENTRIES[name]] = module(on_device_of(module, ids[None]))[0]
    return replace(prepared, inputs=inputs)


def embedding_of(model: nn.Module, adapter: Adapter, name: str) -> nn.Module:
    """The module that embeds these ids: those of an output have one of their own."""
    if name == "decoder_input_ids" and adapter.output_embeddings is not None:
        return adapter.output_embeddings(model)
    return adapter.embedding_module(model)


def mean_embedding(module: nn.Module) -> Tensor:
    """What a token's embedding is on average over the vocabulary; computed anew when its weights have changed."""
    check = weights_check(module)
    kept = _means.get(module)
    if kept is None or check is None or kept[0] != check:
        kept = check, _mean(module)
        _means[module] = kept
    return kept[1]


def _mean(module: nn.Module) -> Tensor:
    ids = on_device_of(module, torch.arange(int(module.num_embeddings)))  # type: ignore[arg-type]
    with switched(gradients=False):
        sums = [module(some[None])[0].sum(0, dtype=torch.float64) for some in torch.split(ids, _AT_ONCE)]
    return torch.stack(sums).sum(0) / len(ids)
