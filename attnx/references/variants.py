"""Many blanked variants of many inputs, run in batches: the engine of blank-out and of faithfulness.

What variants share is run once: equal ones, the beginning of a text that a causal model has read already, and rows that
nothing reads are not run at all. Each of these is tried on the model first and left out where it changes a number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from torch import Tensor, nn

from attnx.answer.number import Score
from attnx.answer.score import answers_where_told, kind_of
from attnx.answer.target import Target
from attnx.capturing.untouched import looking_on
from attnx.capturing.watch import undisturbed
from attnx.references.blank import Blank
from attnx.references.case import Array, Case
from attnx.references.prefixes import behind_beginnings
from attnx.references.unread_rows import find_unread_rows
from attnx.references.variant import Made, Runs, Variant
from attnx.running.answers import first_answers
from attnx.running.batches import bar, in_batches, padding_id, positions_at_once


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
    wanted = _targets(cases, variants)
    made = Made(cases, list(wanted), blank)
    runs = Runs(model, padding_id(model, processor), made, wanted, kind, kind_of([case.target for case in cases]))
    at_most = at_once or positions_at_once(model)
    found: dict[tuple[Variant, Target], float] = {}
    done: set[int] = set()
    with undisturbed(model), looking_on(runs.maps), bar(label, len(made), progress, " runs") as shown:
        find_unread_rows(runs)
        for rows, values in chain(behind_beginnings(runs, at_most), _whole(runs, done, at_most)):
            asked = ((variant, target) for _, variant, target in runs.asked(rows))
            found.update(zip(asked, values.tolist(), strict=True))
            done.update(rows)
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


def _whole(runs: Runs, done: Collection[int], at_most: int) -> Iterator[tuple[list[int], Tensor]]:
    """The rows that are not done when this begins, with their scores, each run from its beginning."""
    made = runs.made
    left = [row for row in range(len(made)) if row not in done]
    some = Made(made.cases, [made.variants[row] for row in left], made.blank)
    for places, _ in in_batches(
        runs.model,
        some,
        lambda several: None,
        first=partial(first_answers, runs.model, runs.pad_id),
        pad_id=runs.pad_id,
        entry=made.blank.entry,
        together=not answers_where_told(runs.model),
        at_most=at_most,
        lengths=[some.length(place) for place in range(len(some))],
        shapes=[some.whole(place).shape for place in range(len(some))],
    ):
        rows = [left[place] for place in places]
        yield rows, runs.scores(rows)
