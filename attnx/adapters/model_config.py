"""What a model's class and config say: its head, its limits, what its forward takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from inspect import signature
from typing import Any

from torch import nn


def base_model(model: nn.Module) -> nn.Module:
    """The transformers model itself, under a wrapper that passes its inputs on."""
    unwrap = getattr(model, "get_base_model", None)
    inner = unwrap() if callable(unwrap) else model
    return inner if isinstance(inner, nn.Module) else model


def has_head(model: nn.Module, *endings: str) -> bool:
    """Whether the class is called …ForMaskedLM, …ForSequenceClassification, or another of the endings."""
    return type(base_model(model)).__name__.endswith(endings)


def generates(model: nn.Module) -> bool:
    """Whether the model has transformers' `generate`."""
    return bool(getattr(model, "can_generate", lambda: False)())


def max_positions(model: nn.Module) -> int | None:
    """The number of positions that the model was built for, or None when it names no limit (relative positions)."""
    config = getattr(model, "config", None)
    limit = getattr(config, "max_position_embeddings", None)
    if not isinstance(limit, int) or limit <= 0:
        return None
    for name, module in _children(model):
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding) and module.padding_idx is not None:
            # RoBERTa counts positions from behind its padding index.
            return min(limit, module.num_embeddings) - module.padding_idx - 1
    return limit


def _children(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Every module below the model with its last name; `named_modules` takes ten times as long, for each text."""
    waiting = [model]
    while waiting:
        for name, module in waiting.pop()._modules.items():
            if module is not None:
                yield name, module
                waiting.append(module)


def max_decoder_positions(model: nn.Module) -> int | None:
    """The number of positions that the decoder of an encoder–decoder was built for; None when it names no limit."""
    config = getattr(model, "config", None)
    for owner in (config, getattr(config, "decoder", None)):
        for name in ("max_target_positions", "max_decoder_position_embeddings", "max_position_embeddings"):
            limit = getattr(owner, name, None)
            if isinstance(limit, int) and limit > 0:
                return limit
    return None


def generation_setting(model: nn.Module, name: str) -> Any:
    """What the model's generation config says, or else its config, or its decoder's; None where none does."""
    config = getattr(model, "config", None)
    for owner in (getattr(model, "generation_config", None), config, getattr(config, "decoder", None)):
        result = getattr(owner, name, None)
        if result is not None:
            return result
    return None


def vocabulary_size(model: nn.Module) -> int | None:
    """The number of token ids that the model embeds, or None when it does not say."""
    try:
        embeddings = model.get_input_embeddings()  # type: ignore[operator]
    except (AttributeError, NotImplementedError):
        return None
    if hasattr(embeddings, "get_base_layer"):  # an adapter of PEFT around it
        embeddings = embeddings.get_base_layer()
    return embeddings.num_embeddings if isinstance(embeddings, nn.Embedding) else None


def takes_logits_to_keep(model: nn.Module) -> bool:
    """Whether the model computes logits only at the positions that `logits_to_keep` names, the same in a whole batch.

    Inputs of different length are therefore kept apart: each length would add its last position to all. A classifier
    may pass the argument on and pool over what is left (BioGPT), and an encoder–decoder counts in its decoder alone
    (T5Gemma): neither gets the argument.
    """
    if "logits_to_keep" not in signature(model.forward).parameters:
        return False
    if getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        return False
    decoder_embeddings = getattr(base_model(model), "get_output_embeddings", None)
    return callable(decoder_embeddings) and decoder_embeddings() is not None


def called(model: nn.Module, inputs: Mapping[str, Any]) -> Any:
    """The output for a batch of inputs, each of which is read by itself; a choice is the only one of its question."""
    arguments = without_cache(model, inputs)
    if has_head(model, "ForMultipleChoice"):
        axes = {"inputs_embeds": 3}
        arguments = {
            name: value[:, None] if getattr(value, "ndim", None) == axes.get(name, 2) else value
            for name, value in arguments.items()
        }
    return model(**arguments)


def without_cache(model: nn.Module, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """A whole input is read at once, so keys and values need not be cached for a next step."""
    if "use_cache" not in inputs and "use_cache" in signature(model.forward).parameters:
        return {**inputs, "use_cache": False}
    return dict(inputs)
