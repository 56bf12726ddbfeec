"""The model of the verb-number commands: the embedded one, or a directory that `attnx train` wrote."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

READABLE_LABELS = {0: "singular", 1: "plural"}
"""For people: the data calls them VBZ and VBP."""


@contextmanager
def chosen_model(directory: Path | None = None) -> Iterator[tuple[Path, Any, Any]]:
    """(directory, model, tokenizer), the model with labels that a reader understands."""
    from attnx.loading import hush
    from attnx.tasks.verb_number.checkpoint import demo_directory
    from attnx.tasks.verb_number.evaluation import load_any

    hush()
    with demo_directory() if directory is None else nullcontext(directory) as place:
        model, tokenizer = load_any(place)
        model.config.id2label = dict(READABLE_LABELS)
        yield place, model, tokenizer
