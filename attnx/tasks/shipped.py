"""The models that ship with attnx: their names, where they lie, and how small ones are written and read."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import AbstractContextManager
from importlib.resources import as_file, files
from pathlib import Path
from types import MappingProxyType
from typing import Any

from attnx.interrupts import uninterrupted

SHIPPED: Mapping[str, str] = MappingProxyType(
    {
        "verb-number": "attnx.tasks.verb_number",
        "planted-patch": "attnx.tasks.planted_patch",
        "recall": "attnx.tasks.recall",
        "dates": "attnx.tasks.dates",
        "picture-question": "attnx.tasks.picture_question",
        "planted-tone": "attnx.tasks.planted_tone",
    }
)
"""What `--model` and `attnx train` call them → the package in whose folder `demo` each lies."""


def shipped_directory(name: str) -> AbstractContextManager[Path]:
    """Where a shipped model lies; a temporary copy when the package is imported from an archive."""
    return as_file(files(SHIPPED[name]) / "demo")


def embedded_name(name: str) -> str:
    """What results say whose they are: no folder of this machine."""
    return f"the {name} model embedded in attnx"


def load_halves(name: str, kind: Any) -> tuple[Any, Any]:
    """A shipped model of text of that transformers class, in float32 and in evaluation mode, and its tokenizer."""
    # In one piece: a Ctrl-C in the middle would leave the libraries' log as it is set here.
    return uninterrupted(lambda: _load_halves(name, kind))


def _load_halves(name: str, kind: Any) -> tuple[Any, Any]:
    from transformers import AutoTokenizer

    from attnx.tasks.quiet import quiet

    with shipped_directory(name) as directory, quiet():
        model = kind.from_pretrained(directory).float().eval()
        model.config.name_or_path = embedded_name(name)
        return model, AutoTokenizer.from_pretrained(directory)


def save_halves(model: Any, tokenizer: Any, directory: Path) -> None:
    """Write a model and its tokenizer so that `--model` takes them. The model in memory is left as it is."""
    from attnx.tasks.quiet import quiet
    from attnx.tasks.word_tokenizer import save_tokenizer

    directory.mkdir(parents=True, exist_ok=True)
    with quiet():
        copy.deepcopy(model).half().save_pretrained(directory)
        save_tokenizer(tokenizer, directory)
