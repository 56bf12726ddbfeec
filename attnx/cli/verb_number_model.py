"""The model of the verb-number commands: the embedded one, or a directory that `attnx train` wrote."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any


@contextmanager
def chosen_model(directory: Path | None = None) -> Iterator[tuple[Path, Any, Any]]:
    """(directory, model, tokenizer); the directory tells what the model was trained on."""
    from attnx.loading import hush
    from attnx.tasks.verb_number.checkpoint import demo_directory
    from attnx.tasks.verb_number.evaluation import load_any

    hush()
    with demo_directory() if directory is None else nullcontext(directory) as place:
        yield place, *load_any(place)
