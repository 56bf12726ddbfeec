"""Whether a directory holds a saved model of a task, seen without loading it."""

from __future__ import annotations

from pathlib import Path

from attnx.errors import FileFormatError


def saved_model(directory: Path) -> Path:
    """The directory itself, when it holds a saved model and its tokenizer."""
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        if not (directory / name).is_file():
            raise FileFormatError(f"{directory} is not a directory of a saved model: {name} is missing")
    return directory
