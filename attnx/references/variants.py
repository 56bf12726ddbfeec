"""Many blanked variants of many inputs, run in batches: the engine of blank-out and of faithfulness.

Each variant is made when its batch is: all at once they would be many times the size of the inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from attnx.answer.score import Score, answers_where_told, as_rows, score
from attnx.answer.target import Target
from attnx.capturing.watch import undisturbed
from attnx.inputs.adapter import Prepared
from attnx.references.blank import Blank
from attnx.references.case import Array, Case, first_answers
from attnx.running.batches import bar, collate, in_batches, padding_id, positions_at_once


@dataclass(frozen=True)
class Variant:
    """Input number `case` with nothing at these `places`."""

    case: int
    places: tuple[int, ...] = ()


def measure(
    model: nn.Module,
    processor: Any,
    cases: Sequence[Case],
    variants: Sequence[Variant],
    *,
    kind: Score,
    blank: Blank,
    at_once: int | None = None,
    label: str = "blank-out",
    progress: bool = False,
) -> Array:
    """The score of each variant's target. The same variant twice is run once."""
    different = list(dict.fromkeys(variants))
    made = _Made(cases, different, blank)
    pad_id = padding_id(model, processor)

    def run(several: Sequence[Prepared]) -> tuple[dict[str, Any], torch.device]:
        inputs = collate(model, several, pad_id)
        return inputs, next(iter(inputs.values())).device

    found: dict[Variant, float] = {}
    with undisturbed(model), bar(label, len(different), progress, " runs") as shown:
        for rows, (inputs, device) in in_batches(
            model,
            made,
            run,
            first=partial(first_answers, model, pad_id),
            pad_id=pad_id,
            entry=blank.entry,
            together=not answers_where_told(model),
            at_most=at_once or positions_at_once(model),
            lengths=[_length(cases[one.case], one, blank) for one in different],
            shapes=[cases[one.case].prepared.shape for one in different],
        ):
            targets = as_rows([made.target(row) for row in rows], device)
            values = score(model, inputs, targets, kind).tolist()
            found |= {different[row]: value for row, value in zip(rows, values, strict=True)}
            shown.update(len(rows))
    return np.array([found[one] for one in variants], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class _Made(Sequence[Prepared]):
    """The inputs of the variants, each made when it is read: together they may be many times the inputs."""

    cases: Sequence[Case]
    variants: Sequence[Variant]
    blank: Blank

    def __len__(self) -> int:
        return len(self.variants)

    def __getitem__(self, row: Any) -> Any:
        return _made(self.cases[self.variants[row].case], self.variants[row], self.blank).prepared

    def target(self, row: int) -> Target:
        """Where the answer is read of a variant, and what of it."""
        case, variant = self.cases[self.variants[row].case], self.variants[row]
        return case.target if not self.blank.shortens else _made(case, variant, self.blank).target


def _length(case: Case, variant: Variant, blank: Blank) -> int:
    return len(case.prepared.positions) - (len(variant.places) if blank.shortens else 0)


def _made(case: Case, variant: Variant, blank: Blank) -> Case:
    prepared = blank.apply(case.prepared, variant.places)
    if not blank.shortens:
        return Case(prepared, case.target)
    # The answer is read where its position has moved to; if it is gone itself, at the one before.
    position = case.target.position - sum(place <= case.target.position for place in variant.places)
    return Case(prepared, replace(case.target, position=max(0, position)))
