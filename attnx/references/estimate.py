"""Blanked variants to first order: some runs there and back for each input, whatever the number of its variants.

The score is a function of the embeddings. Its mean slope between the input and the input with nothing but blanks says
what each position adds on that way (integrated gradients of few steps), and were the function a plane, a variant would
lose the sum over its blanks. At both ends of the way that is right, between them it is an estimate, and says so
wherever it is shown. The slope at the input alone is no help: a classifier that is sure has none. `docs/references.md`
has how far both are off.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import nn

from attnx.answer.number import Score
from attnx.errors import ChoiceError
from attnx.references.blank import Blank
from attnx.references.case import Array, Case
from attnx.references.integrated_gradients import integrated_gradients
from attnx.references.variant import Variant
from attnx.references.variants import measure

STEPS = 8
"""Points on the way at which the slope is taken."""

FIRST_ORDER = "first-order estimate"
NOTE = f"{{}} is a {FIRST_ORDER} by slopes, not measured by blanked runs: exact=True measures"


def estimate(
    model: nn.Module,
    processor: Any,
    cases: Sequence[Case],
    variants: Sequence[Variant],
    *,
    kind: Score,
    blank: Blank,
    label: str = "estimate",
    progress: bool = False,
) -> Array:
    """The score of each variant's target, as `measure` gives it, to first order."""
    if blank.shortens:
        raise ChoiceError("exact=False asked, but what is deleted has no slope; give blank='mean' or a token")
    if not variants:
        return np.zeros(0)
    asked = sorted({one.case for one in variants})
    whole = measure(model, processor, cases, list(map(Variant, asked)), kind=kind, blank=blank, label=label)
    options: dict[str, Any] = {"steps": STEPS, "score": kind, "blank": blank.name, "progress": progress}
    slopes = integrated_gradients(model, processor, [cases[number] for number in asked], **options)
    told = {number: (score, one.scores) for number, score, one in zip(asked, whole, slopes, strict=True)}
    return np.array([told[one.case][0] - told[one.case][1][list(one.places)].sum() for one in variants])
