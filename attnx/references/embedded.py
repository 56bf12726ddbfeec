"""Texts that enter as embeddings: the answer must be that of the token ids, and the mean of all is no word at all."""

from __future__ import annotations

import weakref
from dataclasses import replace
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from attnx.answer.registry import numbers_of
from attnx.capturing.frozen.sink_values import Check, on_device_of, weights_check
from attnx.capturing.untouched import switched
from attnx.capturing.watch import undisturbed
from attnx.errors import InputError
from attnx.inputs.adapter import Adapter, Prepared
from attnx.inputs.model_facts import called
from attnx.running.batches import collate, padding_id, slack

_AT_ONCE = 8_192
"""Tokens that are embedded together for the mean."""

_same: weakref.WeakKeyDictionary[nn.Module, bool] = weakref.WeakKeyDictionary()
_means: weakref.WeakKeyDictionary[nn.Module, tuple[Check, Tensor]] = weakref.WeakKeyDictionary()


ENTRIES = {"input_ids": "inputs_embeds", "decoder_input_ids": "decoder_inputs_embeds"}
"""By which names ids go into a model, and by which their embeddings."""


def takes_embeddings(model: nn.Module) -> bool:
    return "inputs_embeds" in signature(model.forward).parameters


def same_by_embeddings(model: nn.Module, adapter: Adapter, processor: Any, example: Prepared) -> bool:
    """Whether embeddings lead to the answer that token ids lead to; tried once for each model."""
    if not takes_embeddings(model):
        return False
    if model not in _same:
        pad_id = padding_id(model, processor)
        with undisturbed(model):
            by_id, by_embedding = (
                numbers_of(model, called(model, collate(model, [one], pad_id)))
                for one in (example, embedded(model, adapter, example))
            )
        if by_id is None or by_embedding is None:
            raise InputError(f"{type(model).__name__} predicts nothing; load it with a head")
        _same[model] = torch.allclose(by_id, by_embedding, atol=slack(by_id), rtol=0)
    return _same[model]


def has_mean(model: nn.Module, adapter: Adapter) -> bool:
    """Whether the embedding is a table, and not a function."""
    return isinstance(getattr(adapter.embedding_module(model), "num_embeddings", None), int)


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
