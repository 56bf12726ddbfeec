"""Many blanked variants of many inputs, run in batches: the engine of blank-out and of faithfulness.

Each variant is made when its batch is: all at once they would be many times the size of the inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import nn

from attnx.adapters import adapter_for
from attnx.adapters.batch import collate, padding_id
from attnx.batching import batches
from attnx.capture.watch import undisturbed
from attnx.progress import bar
from attnx.references.answer import Score, answers_where_told, as_rows, positions_at_once, score
from attnx.references.blank import Blank, choose_blank
from attnx.references.case import Array, Case, mixes_lengths


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
    blank: str | int | None = None,
    at_once: int | None = None,
    label: str = "blank-out",
    progress: bool = False,
) -> Array:
    """The score of each variant's target. The same variant twice is run once."""
    chosen_blank = choose_blank(model, adapter_for(model), processor, cases[0].prepared, blank)
    different = list(dict.fromkeys(variants))
    lengths = [_length(cases[one.case], one, chosen_blank) for one in different]
    pad_id = padding_id(model, processor)
    found: dict[Variant, float] = {}
    with undisturbed(model), bar(label, len(different), progress, " runs") as shown:
        ends = [different[lengths.index(end)] for end in (min(lengths), max(lengths))]
        mixed = not answers_where_told(model) and mixes_lengths(
            model, [_made(cases[one.case], one, chosen_blank).prepared for one in ends], pad_id
        )
        shapes = [cases[one.case].prepared.shape for one in different]
        for rows in batches(lengths, mixed=mixed, positions=at_once or positions_at_once(model), shapes=shapes):
            made = [_made(cases[different[row].case], different[row], chosen_blank) for row in rows]
            inputs = collate(model, [one.prepared for one in made], pad_id)
            targets = as_rows([one.target for one in made], next(iter(inputs.values())).device)
            values = score(model, inputs, targets, kind).tolist()
            found |= {different[row]: value for row, value in zip(rows, values, strict=True)}
            shown.update(len(rows))
    return np.array([found[one] for one in variants], dtype=np.float64)


def _length(case: Case, variant: Variant, blank: Blank) -> int:
    return len(case.prepared.positions) - (len(variant.places) if blank.shortens else 0)


def _made(case: Case, variant: Variant, blank: Blank) -> Case:
    if not variant.places:
        return case
    prepared = blank.apply(case.prepared, variant.places)
    if not blank.shortens:
        return Case(prepared, case.target)
    # The answer is read where its position has moved to; if it is gone itself, at the one before.
    position = case.target.position - sum(place <= case.target.position for place in variant.places)
    return Case(prepared, replace(case.target, position=max(0, position)))
