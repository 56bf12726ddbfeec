"""Does a method find the patch that is known to tell the class? Counted over many pictures, against chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnx.agreement.summary import bootstrap_interval
from attnx.explaining.explain import explain
from attnx.methods.registry import PAPER_METHODS
from attnx.results.explanation import Explanation
from attnx.tasks.planted_patch.generator import DECOYS, GRID, Planted


@dataclass(frozen=True)
class PatchFinding:
    """How often the planted patch had the highest score of all patches, and where it stood on average."""

    found: float
    low: float
    high: float
    """The 95 % interval of `found`, by bootstrap over pictures."""
    chance: float
    """What an order by lot finds: one patch of all."""
    striking: float
    """What a method finds that sees only what stands out: the mark is one of it, the decoys are the others."""
    rank: float
    """Mean rank of the planted patch, 1 for the best; patches that tie share theirs."""


def find(
    model: Any,
    processor: Any,
    pictures: Sequence[Planted],
    *,
    methods: Sequence[str] = PAPER_METHODS,
    references: Any = (),
    layer: int | None = None,
    **options: Any,
) -> dict[str, PatchFinding]:
    """Each method and reference on all pictures, at one layer (the last by default)."""
    images = [one.image for one in pictures]
    explanations = explain(model, processor, images, methods=methods, references=references, **options)
    names = [*explanations[0].methods, *explanations[0].references]
    return {name: _finding([_rank(e, one, name, layer) for e, one in zip(explanations, pictures, strict=True)])
            for name in names}  # fmt: skip


def _rank(explanation: Explanation, picture: Planted, name: str, layer: int | None) -> float:
    """1 plus the patches that score higher, plus half of those that tie. Scores that differ by rounding tie."""
    scores = np.abs(explanation.scores(name, layer))
    patches = {one.token: round(float(scores[one.index]), 9) for one in explanation.positions.named}
    own = patches.pop(picture.token)
    return 1 + sum(other > own for other in patches.values()) + sum(other == own for other in patches.values()) / 2


def _finding(ranks: Sequence[float]) -> PatchFinding:
    hits = np.array([float(rank == 1) for rank in ranks])
    low, high = bootstrap_interval(hits)
    return PatchFinding(float(hits.mean()), low, high, 1 / GRID**2, 1 / (1 + DECOYS), float(np.mean(ranks)))
