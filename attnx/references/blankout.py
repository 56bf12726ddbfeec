"""Blank-out: how much the model's answer changes when a token, word, patch or stretch of sound is gone (§4)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
from torch import nn

from attnx.answer.number import Score
from attnx.answer.score import check_score, kind_of
from attnx.capturing.watch import unwrapped
from attnx.errors import ChoiceError, InputError, whole_number
from attnx.graph.asked import check_position
from attnx.inputs.families import adapter_for
from attnx.references.blank import Named, choose_blank
from attnx.references.case import Case, Scored
from attnx.references.estimate import FIRST_ORDER, NOTE, STEPS, estimate
from attnx.references.occlusion import patch_groups
from attnx.references.reference import Reference
from attnx.references.silence import stretch_groups
from attnx.references.variant import Variant
from attnx.references.variants import measure
from attnx.registry import unknown

Unit = Literal["token", "word", "span"]

PAPER: dict[str, Any] = {"score": "probability", "signed": False}
"""The options by which §4 defines it: |p − p'|."""


def blankout(
    model: nn.Module,
    processor: Any,
    cases: Sequence[Case],
    *,
    unit: Unit = "token",
    score: Score | None = None,
    blank: Named = None,
    group: int | None = None,
    signed: bool = True,
    exact: bool = True,
    positions: Sequence[Sequence[int]] | None = None,
    at_once: int | None = None,
    progress: bool = False,
) -> list[Scored]:
    """s − s' for each position of each case, where s' is the target's score after that position was blanked.

    The score is the margin, the logit, the probability or the log-odds. Not `signed` it is |s − s'|, which does not
    tell what speaks for the target from what speaks against it: `**PAPER` is the paper's definition. A `unit` of
    words blanks all pieces of a word at once and shares its score out among them, one of spans does so with each
    part that was named (`spans=`), and a `group` of 2 with squares of 2 × 2 patches of an image or two neighbouring
    stretches of sound, where many are grouped anyway. What stands for nothing is chosen by rule, or `blank` (see
    `choose_blank`). `positions` says for each case which to blank, by default all that are not special tokens; the
    others score 0. `at_once` bounds a batch in positions. Not `exact` no variant is run: s' is a
    first-order estimate by slopes (see `estimate`).
    """
    model = unwrapped(model)
    kind = check_score(score, model, "margin", kind_of([case.target for case in cases]))
    if at_once is not None and at_once < 1:
        raise InputError(f"at_once must be at least 1 position, found {at_once}")
    units = _units(cases, unit, positions, group)
    variants = [Variant(number, places) for number, several in enumerate(units) for places in several]
    whole = [Variant(number) for number in range(len(cases))]
    chosen = choose_blank(model, adapter_for(model), processor, cases[0].prepared, blank)
    options: dict[str, Any] = {"kind": kind, "blank": chosen, "progress": progress}
    told = partial(measure, at_once=at_once) if exact else estimate
    measured = told(model, processor, cases, whole + variants, **options)
    scores = [np.zeros(len(case.prepared.positions)) for case in cases]
    for variant, after in zip(variants, measured[len(whole) :], strict=True):
        change = measured[variant.case] - after
        scores[variant.case][list(variant.places)] = (change if signed else abs(change)) / len(variant.places)
    facts = {"score": kind, "blank": chosen.name, **({} if exact else {"estimate": FIRST_ORDER})}
    notes = () if exact else (NOTE.format("blankout"),)
    return [
        Scored(one, {**facts, "before": float(before)}, notes, signed=signed)
        for one, before in zip(scores, measured, strict=False)
    ]


def _units(
    cases: Sequence[Case], unit: Unit, positions: Sequence[Sequence[int]] | None, group: int | None
) -> list[list[tuple[int, ...]]]:
    """For each case, the groups of positions that are blanked together."""
    if unit not in get_args(Unit):
        raise ChoiceError(unknown("unit", unit, get_args(Unit)))
    if positions is not None:
        if len(positions) != len(cases):
            raise InputError(f"positions for {len(positions)} inputs, expected one for each of {len(cases)}")
        lengths = [len(case.prepared.positions) for case in cases]
        return [
            [(check_position(place, length),) for place in several]
            for several, length in zip(positions, lengths, strict=True)
        ]
    if all(case.prepared.heard is not None for case in cases) and unit != "span":
        return [_in_time(case, group) for case in cases]
    if group is not None or all(case.prepared.boxes is not None for case in cases):
        return [patch_groups(case.prepared, group) for case in cases]
    if unit == "span":
        if not all(case.prepared.spans for case in cases):
            raise ChoiceError("unit='span' asked, but no spans were named: explain(…, spans={'doc 1': (0, 812), …})")
        return [case.units for case in cases]
    if unit == "word":
        return [[word.positions for word in case.prepared.words] for case in cases]
    return [[(place,) for place in case.content] for case in cases]


MOST_STRETCHES = 64
"""Of half a minute, half a second each."""


def _in_time(case: Case, size: int | None) -> list[tuple[int, ...]]:
    """Neighbouring stretches of sound, and each token that was written of it."""
    if size is not None and whole_number("group", size) < 1:
        raise ChoiceError(f"group={size} asked; a group has at least 1 stretch of time")
    source = case.prepared.source_length
    stretches = len(case.prepared.positions.stretches)
    groups = stretch_groups(case.prepared, size or -(-stretches // MOST_STRETCHES) or 1)
    return [*groups, *((place,) for place in case.content if source and place >= source)]


BLANKOUT = Reference(
    "blankout",
    blankout,
    title="blank-out",
    paper="Abnar & Zuidema 2020, §4",
    costs="a run for each position",
    forwards=lambda positions, exact=True, **options: positions + 1 if exact else 2 * STEPS + 3,
    signed=True,
    options=("unit", "score", "blank", "group", "signed", "exact", "positions", "at_once"),
)
