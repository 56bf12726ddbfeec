"""Many blanked variants of many inputs, run in batches: the engine of blank-out and of faithfulness.

What variants share is run once: equal ones, also of another question of the same call, the beginning of a text that a
causal model has read already, and rows that are equal; rows that nothing reads are not run at all. Each of these is
tried on the model first, or seen in its numbers, and left out where it changes one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from torch import Tensor, nn

from attnx.answer.number import Score
from attnx.answer.score import kind_of
from attnx.answer.target import Target
from attnx.capturing.untouched import looking_on
from attnx.capturing.watch import undisturbed
from attnx.inputs.model_facts import takes_logits_to_keep
from attnx.references.blank import Blank
from attnx.references.case import Array, Case
from attnx.references.prefixes import behind_beginnings
from attnx.references.said import said_so_far
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
    answers, said = kind_of([case.target for case in cases]), None if blank.shortens else said_so_far()
    runs = Runs(model, padding_id(model, processor), made, wanted, kind, answers, said)
    found = _said(runs)
    runs = _unsaid(runs, found)
    at_most = at_once or positions_at_once(model)
    done: set[int] = set()
    with undisturbed(model), looking_on(runs.maps), bar(label, len(runs.made), progress, " runs", line=True) as shown:
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


def _said(runs: Runs) -> dict[tuple[Variant, Target], float]:
    """The scores of what another question has run."""
    if runs.said is None:
        return {}
    pairs = [(variant, target) for variant, targets in runs.wanted.items() for target in targets]
    known = [pair for pair in pairs if runs.key(*pair) in runs.said.kept]
    targets = [target for _, target in known]
    scores = runs.said.scores(runs.model, [runs.key(*pair) for pair in known], targets, runs.kind)
    return dict(zip(known, scores, strict=True))


def _unsaid(runs: Runs, found: Collection[tuple[Variant, Target]]) -> Runs:
    """The runs that are left."""
    left = {
        variant: targets
        for variant, targets in runs.wanted.items()
        if any((variant, target) not in found for target in targets)
    }
    return replace(runs, made=replace(runs.made, variants=list(left)), wanted=left)


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
        together=not takes_logits_to_keep(runs.model),
        at_most=at_most,
        lengths=[some.length(place) for place in range(len(some))],
        shapes=[some.whole(place).shape for place in range(len(some))],
    ):
        rows = [left[place] for place in places]
        yield rows, runs.scores(rows)
