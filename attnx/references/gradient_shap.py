"""Gradient SHAP: slopes at random points between the input and random baselines (Lundberg & Lee 2017)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attnx.capture.watch import unwrapped
from attnx.errors import InputError
from attnx.references.answer import Score, positions_at_once
from attnx.references.attribution import Batch, Reduction, attribute
from attnx.references.baseline import BASELINES, baseline
from attnx.references.case import Case, Scored


def gradient_shap(
    model: nn.Module,
    processor: Any,
    cases: Sequence[Case],
    *,
    samples: int = 32,
    seed: int = 0,
    score: Score | None = None,
    reduction: Reduction = "sum",
    progress: bool = False,
) -> list[Scored]:
    """What each position adds to the target's score, on average over `samples` points on ways from both baselines.

    The same `seed` gives the same numbers; the caller's random numbers are not disturbed.
    """
    if samples < 1:
        raise InputError(f"samples must be at least 1, found {samples}")
    model = unwrapped(model)

    def explainer(batch: Batch) -> tuple[Tensor, list[dict[str, float]]]:
        from captum.attr import GradientShap

        shap = GradientShap(batch.forward)
        starts = torch.cat([baseline(batch, model, processor, name) for name in BASELINES])
        at_once = max(1, positions_at_once(model) // len(batch.cases[0].prepared.positions))
        total, left = torch.zeros_like(batch.values), samples
        with _seeded(seed):
            while left:
                drawn = min(left, at_once)
                found = shap.attribute(
                    batch.values, baselines=starts, n_samples=drawn, additional_forward_args=batch.extra
                )
                total = total + drawn / samples * found.detach()
                left -= drawn
        return total, [{}] * len(batch.cases)

    # One case at a time: Captum would draw the baselines of one case for another.
    options: dict[str, Any] = {"kind": score, "reduction": reduction, "at_once": 1}
    return attribute(model, processor, cases, explainer, **options, label="gradient SHAP", progress=progress)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Captum draws from the random numbers of numpy and torch at large; they are put back afterwards."""
    state = np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        try:
            np.random.seed(seed)
            torch.manual_seed(seed)
            yield
        finally:
            np.random.set_state(state)
