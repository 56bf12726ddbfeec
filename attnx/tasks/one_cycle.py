"""The training of the small models: AdamW with one rise and fall of the learning rate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn

from attnx.errors import InputError


class Recipe(Protocol):
    """What a recipe says of its training."""

    @property
    def steps(self) -> int: ...
    @property
    def batch(self) -> int: ...
    @property
    def learning_rate(self) -> float: ...
    @property
    def warmup(self) -> float: ...


def check_recipe(recipe: Recipe) -> None:
    if recipe.steps < 1 or recipe.batch < 1:
        raise InputError(f"steps and batch must be at least 1, found {recipe.steps} and {recipe.batch}")


def one_cycle(
    model: nn.Module,
    recipe: Recipe,
    loss_of: Callable[[int], Tensor],
    *,
    betas: tuple[float, float] = (0.9, 0.999),
    report: Callable[[int, float], None] | None = None,
) -> None:
    """All steps of a recipe. `loss_of` draws the batch of a step, from 1, and gives its loss; `report` is told it."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.learning_rate, betas=betas, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, recipe.learning_rate, total_steps=recipe.steps, pct_start=recipe.warmup
    )
    for step in range(1, recipe.steps + 1):
        loss = loss_of(step)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if report is not None:
            report(step, loss.item())
