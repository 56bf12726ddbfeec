"""Many blanked variants of many inputs, run in batches: the engine of blank-out and of faithfulness.

Each variant is made when its batch is: all at once they would be many times the size of the inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from attnx.answer.kind import position_moved
from attnx.answer.number import Score
from attnx.answer.registry import ANSWERS
from attnx.answer.score import answers_where_told, as_rows, kind_of, score
from attnx.answer.target import Target
from attnx.capturing.watch import undisturbed
from attnx.inputs.adapter import Prepared
from attnx.references.blank import Blank
from attnx.references.case import Array, Case
from attnx.running.answers import first_answers
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
    """The score of each variant's target. The same variant twice is run once, and for all cases of one input."""
    wanted, answers = _targets(cases, variants), kind_of([case.target for case in cases])
    different = list(wanted)
    made = _Made(cases, different, blank)
    pad_id = padding_id(model, processor)

    def run(several: Sequence[Prepared]) -> tuple[dict[str, Any], torch.device]:
        inputs = collate(model, several, pad_id)
        return inputs, next(iter(inputs.values())).device

    found: dict[tuple[Variant, Target], float] = {}
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
            asked = [
                (place, different[row], target) for place, row in enumerate(rows) for target in wanted[different[row]]
            ]
            targets = as_rows([_read_at(target, variant, blank) for _, variant, target in asked], device)
            of = torch.tensor([place for place, _, _ in asked], device=device)
            values = score(model, inputs, targets, kind, of, answers=answers).tolist()
            found |= {(variant, target): value for (_, variant, target), value in zip(asked, values, strict=True)}
            shown.update(len(rows))
    first = _first_of_input(cases)
    return np.array([found[_own(one, first), cases[one.case].target] for one in variants], dtype=np.float64)


def _targets(cases: Sequence[Case], variants: Sequence[Variant]) -> dict[Variant, tuple[Target, ...]]:
    """What is read of each different variant; those of cases that share an input are the same."""
    first = _first_of_input(cases)
    found: dict[Variant, dict[Target, None]] = {}
    for one in variants:
        found.setdefault(_own(one, first), {})[cases[one.case].target] = None
    return {variant: tuple(targets) for variant, targets in found.items()}


def _first_of_input(cases: Sequence[Case]) -> list[int]:
    """For each case the first that has its input."""
    numbers: dict[int, int] = {}
    return [numbers.setdefault(id(case.prepared), number) for number, case in enumerate(cases)]


def _own(variant: Variant, first: Sequence[int]) -> Variant:
    return Variant(first[variant.case], variant.places)


@dataclass(frozen=True, eq=False)
class _Made(Sequence[Prepared]):
    """The inputs of the variants, each made when it is read: together they may be many times the inputs."""

    cases: Sequence[Case]
    variants: Sequence[Variant]
    blank: Blank

    def __len__(self) -> int:
        return len(self.variants)

    def __getitem__(self, row: Any) -> Any:
        variant = self.variants[row]
        return self.blank.apply(self.cases[variant.case].prepared, variant.places)


def _length(case: Case, variant: Variant, blank: Blank) -> int:
    return len(case.prepared.positions) - (len(variant.places) if blank.shortens else 0)


def _read_at(target: Target, variant: Variant, blank: Blank) -> Target:
    """The target where it has moved to."""
    if not blank.shortens:
        return target
    moved = ANSWERS[target.kind].moved if target.kind else position_moved
    return moved(target, variant.places)
