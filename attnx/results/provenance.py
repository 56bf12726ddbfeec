"""Where numbers come from: versions, model, settings."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from typing import Any

from torch import nn

NOT_KEPT = "not kept"
"""The name under which a record says what an option was that no file can hold, such as a function."""


def provenance(model: nn.Module, adapter: str, **settings: Any) -> dict[str, Any]:
    """What another person needs to get the same numbers again; plain values, ready for JSON."""
    config = model.config
    dtype = next(model.parameters()).dtype
    return {
        "versions": {name: _version(name) for name in ("attnx", "torch", "transformers")},
        "model": getattr(config, "name_or_path", "") or type(model).__name__,
        "class": type(model).__name__,
        "adapter": adapter,
        "attention": getattr(config, "_attn_implementation", None),
        "dtype": str(dtype).removeprefix("torch."),
        "settings": settings,
    }


@cache
def _version(package: str) -> str:
    """Read once: finding a package's metadata takes longer than explaining a short text."""
    return version(package)
