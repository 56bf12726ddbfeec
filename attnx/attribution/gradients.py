"""Gradient SHAP: slopes at random points between the input and random baselines (Lundberg & Lee 2017).

Written out here and not left to Captum, which draws from the random numbers that the whole process shares, and in
single precision whatever the model's is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attnx.attribution.base import ANSWER, SLOPES, Case, Reference, Scored
from attnx.attribution.baselines import Named
from attnx.attribution.captum import ZERO, Batch, Embed, Facts, Reduction, attribute, baseline_values
from attnx.errors import InputError, whole_number
from attnx.hooks import max_batch_positions, unwrap_model
from attnx.targets import Score


def gradient(
    model: nn.Module,
    processor: Any,
    cases: Sequence[Case],
    *,
    score: Score | None = None,
    reduction: Reduction = "norm",
    embed: Embed | None = None,
    progress: bool = False,
) -> list[Scored]:
    """For each position of each case, the slope of the target's score (by default its logit) by that embedding.

    `reduction` makes one number of a vector: its L2 norm, its signed sum, or that sum's absolute value. `embed`
    replaces the model's own embedding of tokens.
    """

    def explainer(batch: Batch) -> tuple[Tensor, list[Facts]]:
        return slopes(batch), [{}] * len(batch.cases)

    options: dict[str, Any] = {"kind": score, "reduction": reduction, "embed": embed, "shares": True}
    return attribute(model, processor, cases, explainer, **options, label="gradients", progress=progress)


def input_x_gradient(
    model: nn.Module,
    processor: Any,
    cases: Sequence[Case],
    *,
    score: Score | None = None,
    reduction: Reduction = "sum",
    progress: bool = False,
) -> list[Scored]:
    """The gradient times the embedding: to first order, what each position adds to the target's score."""

    def explainer(batch: Batch) -> tuple[Tensor, list[Facts]]:
        return slopes(batch) * batch.values.detach(), [{}] * len(batch.cases)

    options: dict[str, Any] = {"kind": score, "reduction": reduction, "shares": True}
    return attribute(model, processor, cases, explainer, **options, label="input × gradient", progress=progress)


def slopes(batch: Batch) -> Tensor:
    """case × …: the derivative of each case's score by its values; those of one input go back through one run."""
    if batch.shared:
        scores = batch.forward(batch.values, *batch.extra)
        gradients = [torch.autograd.grad(score, batch.values, retain_graph=True)[0] for score in scores.unbind()]
        return torch.cat(gradients)
    from captum.attr import Saliency

    tensor: Tensor = Saliency(batch.forward).attribute(batch.values, abs=False, additional_forward_args=batch.extra)
    return tensor


GRADIENT = Reference(
    "gradient",
    gradient,
    title="gradients",
    paper="Simonyan et al. 2014",
    costs="a run there and back",
    forwards=lambda positions, **options: 2,
    needs=(ANSWER, SLOPES),
    options=("score", "reduction", "embed"),
)
INPUT_X_GRADIENT = Reference(
    "input_x_gradient",
    input_x_gradient,
    title="input × gradient",
    paper="Shrikumar et al. 2016",
    costs="a run there and back",
    forwards=lambda positions, **options: 2,
    signed=True,
    needs=(ANSWER, SLOPES),
    options=("score", "reduction"),
)


def integrated_gradients(
    model: nn.Module,
    processor: Any,
    cases: Sequence[Case],
    *,
    steps: int = 32,
    baseline: Named = None,
    score: Score | None = None,
    reduction: Reduction = "sum",
    progress: bool = False,
) -> list[Scored]:
    """What each position adds to the target's score on the straight path from the baseline to the input.

    `baseline` is a token, "mean" (the mean embedding) or "zero"; by default it is chosen as for `blankout`.

    Each case tells its `convergence_delta`; if it is large beside the score, take more `steps`.
    """
    if steps < 1:
        raise InputError(f"steps must be at least 1, found {steps}")
    model = unwrap_model(model)

    def explainer(batch: Batch) -> tuple[Tensor, list[Facts]]:
        from captum.attr import IntegratedGradients

        # Captum multiplies the batch by the steps that it takes at once, and takes at least one.
        longest = max(len(case.prepared.positions) for case in batch.cases)
        at_once = max(len(batch.cases), max_batch_positions(model) // longest)
        begin, chosen = baseline_values(batch, model, processor, baseline)
        summed, deltas = IntegratedGradients(batch.forward).attribute(
            batch.values,
            baselines=begin,
            additional_forward_args=batch.extra,
            n_steps=steps,
            internal_batch_size=at_once,
            return_convergence_delta=True,
        )
        return summed, [{"convergence_delta": float(delta), **chosen} for delta in deltas]

    options: dict[str, Any] = {"kind": score, "reduction": reduction}
    return attribute(model, processor, cases, explainer, **options, label="integrated gradients", progress=progress)


INTEGRATED_GRADIENTS = Reference(
    "integrated_gradients",
    integrated_gradients,
    title="integrated gradients",
    paper="Sundararajan et al. 2017",
    costs="a run there and back for each step",
    forwards=lambda positions, steps=32, **options: 2 * steps + 2,
    signed=True,
    needs=(ANSWER, SLOPES),
    options=("steps", "baseline", "score", "reduction"),
)


def gradient_shap(
    model: nn.Module,
    processor: Any,
    cases: Sequence[Case],
    *,
    samples: int = 32,
    seed: int = 0,
    baseline: Named = None,
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
    model = unwrap_model(model)

    def explainer(batch: Batch) -> tuple[Tensor, list[Facts]]:
        begun = [baseline_values(batch, model, processor, named) for named in (baseline, ZERO)]
        starts = torch.cat([values for values, _ in begun])
        at_once = max(1, max_batch_positions(model) // len(batch.cases[0].prepared.positions))
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
    extra = [
        tensor.expand(len(points), *tensor.shape[1:]) if isinstance(tensor, Tensor) else tensor
        for tensor in batch.extra
    ]
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
    options=("samples", "seed", "baseline", "score", "reduction"),
)
