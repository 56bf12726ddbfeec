"""Trains a tiny audio spectrogram transformer on planted tones; the same seed gives the same model on a machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import ASTConfig, ASTForAudioClassification

from attnx.demo_models.planted_tone import BINS, FRAMES, LABELS, PATCH, RATE, Array, build_processor, draw
from examples.training.loop import Report, SmallRecipe, one_cycle


@dataclass(frozen=True)
class Recipe(SmallRecipe):
    steps: int = 1000
    batch: int = 32
    learning_rate: float = 2e-3
    warmup: float = 0.15
    width: int = 48


def train(recipe: Recipe | None = None, *, report: Report | None = None) -> Any:
    """A trained model in evaluation mode. `report` is called with every step and its loss."""
    recipe = recipe or Recipe()
    extractor = build_processor()

    def loss_of(model: Any, step: int, random: np.random.Generator) -> Tensor:
        sounds, labels, _ = draw(recipe.batch, random)
        logits = model(input_values=_frames(extractor, sounds)).logits
        return torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels))

    return one_cycle(recipe, lambda: ASTForAudioClassification(_config(recipe)), loss_of, report=report)


def accuracy(model: Any, *, count: int = 500, seed: int = 10_000) -> float:
    """The share of new sounds that are classified right."""
    sounds, labels, _ = draw(count, np.random.default_rng(seed))
    with torch.no_grad():
        found = model(input_values=_frames(build_processor(), sounds)).logits.argmax(-1)
    return float((found == torch.from_numpy(labels)).float().mean())


def _frames(extractor: Any, sounds: Array) -> Tensor:
    frames: Tensor = extractor(list(sounds), sampling_rate=RATE, return_tensors="pt")["input_values"]
    return frames


def _config(recipe: Recipe) -> ASTConfig:
    return ASTConfig(
        max_length=FRAMES,
        num_mel_bins=BINS,
        patch_size=PATCH,
        time_stride=PATCH,
        frequency_stride=PATCH,
        hidden_size=recipe.width,
        intermediate_size=2 * recipe.width,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        id2label=dict(enumerate(LABELS)),
        label2id={label: index for index, label in enumerate(LABELS)},
    )
