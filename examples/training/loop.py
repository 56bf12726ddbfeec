"""The training of the small models: AdamW with one rise and fall of the learning rate, and nothing left to chance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from attnx.errors import InputError

Loss: TypeAlias = Callable[[Any, int, np.random.Generator], Tensor]
"""(model, step from 1, what draws its batch) → the loss of the step."""
Report: TypeAlias = Callable[[int, float], None]
"""Told every step and its loss."""


@dataclass(frozen=True)
class SmallRecipe:
    """Everything that a small model depends on. A task says its own numbers, and adds what it has beside."""

    seed: int = 0
    steps: int = 1200
    batch: int = 64
    learning_rate: float = 3e-3
    warmup: float = 0.1
    """Share of the steps in which the learning rate rises."""
    width: int = 64
    layers: int = 3
    heads: int = 4

    def __post_init__(self) -> None:
        if self.steps < 1 or self.batch < 1:
            raise InputError(f"steps and batch must be at least 1, found {self.steps} and {self.batch}")


def one_cycle(
    recipe: SmallRecipe,
    build: Callable[[], Any],
    loss_of: Loss,
    *,
    betas: tuple[float, float] = (0.9, 0.999),
    report: Report | None = None,
) -> Any:
    """What `build` makes, trained by the recipe, in evaluation mode: the same for the same seed on the same machine."""
    draws = np.random.default_rng(recipe.seed + 1)
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(recipe.seed)
        model = build().train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.learning_rate, betas=betas, weight_decay=0.01)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, recipe.learning_rate, total_steps=recipe.steps, pct_start=recipe.warmup
        )
        for step in range(1, recipe.steps + 1):
            loss = loss_of(model, step, draws)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            if report is not None:
                report(step, loss.item())
    return model.eval()
