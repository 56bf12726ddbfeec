"""Input gradients: the derivative of the target's score by the embedding of each position (§4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attnx.answer.number import Score
from attnx.references.attribution import Batch, Embed, Facts, Reduction, attribute
from attnx.references.case import Case, Scored
from attnx.references.reference import ANSWER, SLOPES, Reference


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
        ways = [torch.autograd.grad(one, batch.values, retain_graph=True)[0] for one in scores.unbind()]
        return torch.cat(ways)
    from captum.attr import Saliency

    found: Tensor = Saliency(batch.forward).attribute(batch.values, abs=False, additional_forward_args=batch.extra)
    return found


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
