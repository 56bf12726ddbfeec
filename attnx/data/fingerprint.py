"""What makes the numbers of a run: its model by its weights, its tokenizer, its settings, and the versions of all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from importlib.metadata import version
from typing import Any

import torch
from torch import nn

from attnx.results.recommendation import Recommendation

VERSIONS = ("attnx", "torch", "transformers", "tokenizers", "numpy")
_NOT_NUMBERS = ("_name_or_path", "name_or_path", "transformers_version")
"""Of a config: what it is called, and who wrote it."""


def fingerprint(model: nn.Module, processor: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Plain values. Two runs may share a folder only where all of them are the same."""
    return {
        "model": weights_digest(model),
        "config": _digest(_without(model.config.to_dict(), _NOT_NUMBERS)),  # type: ignore[operator, union-attr]
        "attention": str(getattr(model.config, "_attn_implementation", None)),
        "tokenizer": _digest(_processor(processor)),
        "settings": dict(settings),
        "versions": {name: version(name) for name in VERSIONS},
    }


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What is not the same, each in words."""
    found = [said for part, said in _SAID.items() if before.get(part) != now.get(part)]
    for part, noun in (("settings", ""), ("versions", "version of ")):
        old, new = before.get(part, {}), now.get(part, {})
        found += [
            f"{noun}{name} was {_told(old.get(name))} and is {_told(new.get(name))}"
            for name in sorted({*old, *new})
            if old.get(name) != new.get(name)
        ]
    return found


_SAID = {
    "model": "other weights",
    "config": "another config of the model",
    "attention": "another implementation of attention",
    "tokenizer": "another tokenizer",
}


def weights_digest(model: nn.Module) -> str:
    """A hash of the weights: the name of a checkpoint does not tell whether it was trained on since."""
    digest = sha256(type(model).__name__.encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        if tensor.device.type != "meta":
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def as_setting(value: Any) -> Any:
    """An option as a manifest keeps it."""
    if isinstance(value, Recommendation):
        return f"recommendation {sha256(value.to_json().encode()).hexdigest()}"
    if isinstance(value, Mapping):
        return {str(name): as_setting(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_setting(one) for one in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)


def _processor(processor: Any) -> Any:
    """How a tokenizer or an image processor reads, whatever file it came from."""
    backend = getattr(processor, "backend_tokenizer", None)
    if backend is not None:
        return json.loads(backend.to_str())
    if hasattr(processor, "get_vocab"):
        return [type(processor).__name__, processor.get_vocab()]
    return _without(processor.to_dict(), _NOT_NUMBERS) if hasattr(processor, "to_dict") else type(processor).__name__


def _digest(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True, default=repr).encode()).hexdigest()


def _without(values: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}


def _told(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else "not given" if value is None else str(value)
