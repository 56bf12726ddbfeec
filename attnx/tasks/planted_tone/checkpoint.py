"""The trained model that ships with attnx: a stock AST, its feature extractor, and weights in half precision."""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from transformers import ASTFeatureExtractor, ASTForAudioClassification

from attnx.interrupts import uninterrupted
from attnx.tasks.planted_tone.generator import RATE
from attnx.tasks.quiet import quiet
from attnx.tasks.shipped import embedded_name, shipped_directory

FRAMES, BINS, PATCH = 200, 32, 8
"""Of the spectrum of a sound, and on a side of a patch: 25 stretches of 80 ms in four bands."""


def build_extractor() -> Any:
    """From samples to the frames of a mel spectrum, scaled about as the sounds of the task need it."""
    return ASTFeatureExtractor(sampling_rate=RATE, max_length=FRAMES, num_mel_bins=BINS, mean=-3.0, std=1.2)


def load_demo() -> tuple[Any, Any]:
    """The model, in float32 and in evaluation mode, and its feature extractor.

    >>> from attnx.tasks.planted_tone.generator import RATE, generate
    >>> model, extractor = load_demo()
    >>> one = generate(1, seed=6)[0]
    >>> given = extractor(one.sound, sampling_rate=RATE, return_tensors="pt")
    >>> model.config.id2label[int(model(**given).logits.argmax())] == one.label
    True
    """
    # In one piece: a Ctrl-C in the middle would leave the libraries' log as it is set here.
    return uninterrupted(_load_demo)


def _load_demo() -> tuple[Any, Any]:
    with demo_directory() as directory, quiet():
        model = ASTForAudioClassification.from_pretrained(directory).float().eval()
        model.config.name_or_path = embedded_name("planted-tone")
        return model, build_extractor()


def demo_directory() -> AbstractContextManager[Path]:
    """Where the shipped model lies."""
    return shipped_directory("planted-tone")


def save(model: Any, directory: Path) -> None:
    """Write a model and its feature extractor so that `attnx explain --model` takes them. It is left as it is."""
    directory.mkdir(parents=True, exist_ok=True)
    with quiet():
        copy.deepcopy(model).half().save_pretrained(directory)
        build_extractor().save_pretrained(directory)
