"""The trained model that ships with attnx: config, image processor, and weights in half precision."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import transformers
from transformers import ViTForImageClassification, ViTImageProcessor

from attnx.tasks.planted_patch.generator import SIDE


def load_demo() -> tuple[Any, Any]:
    """The model, in float32 and in evaluation mode, and its image processor."""
    with demo_directory() as directory, _quiet():
        return ViTForImageClassification.from_pretrained(directory).float().eval(), image_processor()


def demo_directory() -> AbstractContextManager[Path]:
    """Where the shipped model lies; a temporary copy when the package is imported from an archive."""
    return as_file(files("attnx.tasks.planted_patch") / "demo")


def save(model: Any, directory: Path) -> None:
    """Write a model and its image processor so that `attnx explain --model` takes them."""
    directory.mkdir(parents=True, exist_ok=True)
    with _quiet():
        copy.deepcopy(model).half().save_pretrained(directory)
        image_processor().save_pretrained(directory)


def image_processor() -> Any:
    """Resizes to the model's side and scales pixels from −1 to 1."""
    with _quiet():
        return ViTImageProcessor(size={"height": SIDE, "width": SIDE})


@contextmanager
def _quiet() -> Iterator[None]:
    """No bars for a model of this size, and no remark that torchvision, which is not needed, is not there."""
    log = transformers.utils.logging
    verbosity, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(verbosity)
        if bars:
            log.enable_progress_bar()
