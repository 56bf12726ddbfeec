"""Gradient SHAP: slopes at random points between the input and random baselines (Lundberg & Lee 2017).

Written out here and not left to Captum, which draws from the random numbers that the whole process shares, and in
single precision whatever the model's is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attnx.answer.number import Score
from attnx.capturing.watch import unwrapped
from attnx.errors import InputError, whole_number
from attnx.references.attribution import Batch, Facts, Reduction, attribute
from attnx.references.baseline import STARTS, baseline
from attnx.references.blank import Named
from attnx.references.case import Case, Scored
from attnx.references.reference import ANSWER, SLOPES, Reference
from attnx.running.batches import positions_at_once


def gradient_shap(
    model: nn.Module,
    processor: Any,
    cases: Sequence[Case],
    *,
    samples: int = 32,
    seed: int = 0,
    blank: Named = None,
    score: Score | None = None,
    reduction: Reduction = "sum",
    progress: bool = False,
) -> list[Scored]:
    """What each position adds to the target's score, on average over `samples` points on ways from both baselines.

    The same `seed` gives the same numbers; the caller's random numbers are not disturbed.
    """
    if whole_number("samples", samples) < 1:
        raise InputError(f"samples must be at least 1, found {samples}")
    if not 0 <= whole_number("seed", seed) < 2**63:
        raise InputError(f"seed must be from 0 to 2**63 - 1, found {seed}")
    model = unwrapped(model)

    def explainer(batch: Batch) -> tuple[Tensor, list[Facts]]:
        begun = [baseline(batch, model, processor, name, blank) for name in STARTS]
        starts = torch.cat([values for values, _ in begun])
        at_once = max(1, positions_at_once(model) // len(batch.cases[0].prepared.positions))
        # Drawn for all samples before the first runs: how many run at once must not change the numbers.
        generator = torch.Generator().manual_seed(int(seed))
        shares = torch.rand(samples, generator=generator)
        chosen = torch.randint(len(starts), (samples,), generator=generator)
        total = torch.zeros_like(batch.values, dtype=torch.float64)
        for first in range(0, samples, at_once):
            some = slice(first, first + at_once)
            total += _on_the_way(batch, shares[some], starts[chosen[some]])
        return total / samples, [{**begun[0][1]}] * len(batch.cases)

    # One case at a time, for a baseline belongs to its case.
    options: dict[str, Any] = {"kind": score, "reduction": reduction, "at_once": 1}
    return attribute(model, processor, cases, explainer, **options, label="gradient SHAP", progress=progress)


def _on_the_way(batch: Batch, shares: Tensor, starts: Tensor) -> Tensor:
    """The sum over some points of their slope times the whole way; a share of the way each, from a start each."""
    ways = batch.values.detach() - starts
    share = shares.to(ways).reshape(-1, *[1] * (ways.ndim - 1))
    points = (starts + share * ways).detach().requires_grad_()
    extra = [one.expand(len(points), *one.shape[1:]) if isinstance(one, Tensor) else one for one in batch.extra]
    (slopes,) = torch.autograd.grad(batch.forward(points, *extra).sum(), points)
    return (slopes.double() * ways.double()).sum(0, keepdim=True)


GRADIENT_SHAP = Reference(
    "gradient_shap",
    gradient_shap,
    title="gradient SHAP",
    paper="Lundberg & Lee 2017",
    costs="a run there and back for each sample",
    forwards=lambda positions, samples=32, **options: 2 * samples,
    signed=True,
    needs=(ANSWER, SLOPES),
    options=("samples", "seed", "blank", "score", "reduction"),
)
