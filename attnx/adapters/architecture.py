"""What kind of head a model has, told by the name of its class under wrappers such as PEFT's."""

from __future__ import annotations

from torch import nn


def base_model(model: nn.Module) -> nn.Module:
    """The transformers model itself, under a wrapper that passes its inputs on."""
    unwrap = getattr(model, "get_base_model", None)
    inner = unwrap() if callable(unwrap) else model
    return inner if isinstance(inner, nn.Module) else model


def has_head(model: nn.Module, *endings: str) -> bool:
    """Whether the class is called …ForMaskedLM, …ForSequenceClassification, or another of the endings."""
    return type(base_model(model)).__name__.endswith(endings)
