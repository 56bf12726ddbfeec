"""Trains a tiny vision transformer on planted patches; the same seed gives the same model on the same machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import ViTConfig, ViTForImageClassification

from attnx.demo_models.planted_patch import LABELS, PATCH, SIDE, Array, draw
from examples.training.loop import Report, SmallRecipe, one_cycle


@dataclass(frozen=True)
class Recipe(SmallRecipe):
    batch: int = 48
    learning_rate: float = 2e-3
    warmup: float = 0.15
    width: int = 48
    layers: int = 4


def train(recipe: Recipe | None = None, *, report: Report | None = None) -> Any:
    """A trained model in evaluation mode. `report` is called with every step and its loss."""
    recipe = recipe or Recipe()

    def loss_of(model: Any, step: int, random: np.random.Generator) -> Tensor:
        pictures, labels, _ = draw(recipe.batch, random)
        logits = model(pixel_values=_pixels(pictures)).logits
        return torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels))

    return one_cycle(recipe, lambda: ViTForImageClassification(_config(recipe)), loss_of, report=report)


def accuracy(model: Any, *, count: int = 500, seed: int = 10_000) -> float:
    """The share of new pictures that are classified right."""
    pictures, labels, _ = draw(count, np.random.default_rng(seed))
    with torch.no_grad():
        found = model(pixel_values=_pixels(pictures)).logits.argmax(-1)
    return float((found == torch.from_numpy(labels)).float().mean())


def _pixels(pictures: Array) -> Tensor:
    """As the image processor of the model scales them: from −1 to 1."""
    return torch.from_numpy(pictures).permute(0, 3, 1, 2).float() / 127.5 - 1


def _config(recipe: Recipe) -> ViTConfig:
    return ViTConfig(
        image_size=SIDE,
        patch_size=PATCH,
        hidden_size=recipe.width,
        intermediate_size=2 * recipe.width,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        id2label=dict(enumerate(LABELS)),
        label2id={label: index for index, label in enumerate(LABELS)},
    )
