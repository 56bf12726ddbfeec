"""Integrated gradients: slopes summed along the straight way from nothing to the input (Sundararajan et al. 2017).

The attributions of all positions add up to the change of the score; by how much they miss it is the convergence delta.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from attnx.answer.number import Score
from attnx.capturing.watch import unwrapped
from attnx.errors import InputError
from attnx.references.attribution import Batch, Facts, Reduction, attribute
from attnx.references.baseline import Start, baseline
from attnx.references.blank import Named
from attnx.references.case import Case, Scored
from attnx.references.reference import ANSWER, SLOPES, Reference
from attnx.running.batches import positions_at_once


def integrated_gradients(
    model: nn.Module,
    processor: Any,
    cases: Sequence[Case],
    *,
    steps: int = 32,
    start: Start = "blank",
    blank: Named = None,
    score: Score | None = None,
    reduction: Reduction = "sum",
    progress: bool = False,
) -> list[Scored]:
    """What each position adds to the target's score on the way from `start`: the blank, or zero embeddings.

    Each case tells its `convergence_delta`; if it is large beside the score, take more `steps`.
    """
    if steps < 1:
        raise InputError(f"steps must be at least 1, found {steps}")
    model = unwrapped(model)

    def explainer(batch: Batch) -> tuple[Tensor, list[Facts]]:
        from captum.attr import IntegratedGradients

        # Captum multiplies the batch by the steps that it takes at once, and takes at least one.
        longest = max(len(one.prepared.positions) for one in batch.cases)
        at_once = max(len(batch.cases), positions_at_once(model) // longest)
        begin, chosen = baseline(batch, model, processor, start, blank)
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
    options=("steps", "start", "blank", "score", "reduction"),
)
