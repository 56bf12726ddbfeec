"""Blank-out: how much the model's answer changes when a token, word, patch or stretch of sound is gone (§4)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from attnx.adapters import AudioInput, PreparedInput, adapter_for
from attnx.attribution.base import Case, Reference, Scored
from attnx.attribution.baselines import Named, choose_baseline, stretch_groups
from attnx.attribution.captum import Batch, Facts, attribute, baseline_values, split_streams
from attnx.attribution.variants import FIRST_ORDER, NOTE, STEPS, Perturbation, estimate, measure
from attnx.errors import ChoiceError, InputError, whole_number
from attnx.graph import check_position
from attnx.hooks import max_batch_positions, unwrap_model
from attnx.registry import unknown
from attnx.targets import Score, check_score, kind_of


def occlusion(
    model: nn.Module,
    processor: Any,
    cases: Sequence[Case],
    *,
    window: int = 3,
    baseline: Named = None,
    score: Score | None = None,
    progress: bool = False,
) -> list[Scored]:
    """A window of so many tokens (or patches, in a square) slides over the input; each position gets the mean change.

    Signed: a position whose neighbourhood speaks against the target scores below 0.
    """
    if window < 1:
        raise InputError(f"window must be at least 1, found {window}")
    model = unwrap_model(model)

    def explainer(batch: Batch) -> tuple[Tensor, list[Facts]]:
        from captum.attr import Occlusion

        shape, strides = _window(batch, window)
        begin, chosen = baseline_values(batch, model, processor, baseline)
        attributions = Occlusion(batch.forward).attribute(
            batch.values,
            sliding_window_shapes=shape,
            strides=strides,
            baselines=begin,
            additional_forward_args=batch.extra,
            perturbations_per_eval=_together(model, batch),
        )
        return attributions, [chosen] * len(batch.cases)

    options: dict[str, Any] = {"kind": score, "reduction": "mean", "label": "occlusion", "at_once": 1}
    return attribute(model, processor, cases, explainer, **options, gradients=False, progress=progress)


def feature_ablation(
    model: nn.Module,
    processor: Any,
    cases: Sequence[Case],
    *,
    baseline: Named = None,
    score: Score | None = None,
    progress: bool = False,
) -> list[Scored]:
    """Each word (or patch) in turn set to the baseline: the change of the score, shared out among its pieces."""
    model = unwrap_model(model)

    def explainer(batch: Batch) -> tuple[Tensor, list[Facts]]:
        from captum.attr import FeatureAblation

        features, pieces = _features(batch)
        begin, chosen = baseline_values(batch, model, processor, baseline)
        attributions = FeatureAblation(batch.forward).attribute(
            batch.values,
            feature_mask=features,
            baselines=begin,
            additional_forward_args=batch.extra,
            perturbations_per_eval=_together(model, batch),
        )
        return attributions / pieces, [chosen] * len(batch.cases)

    options: dict[str, Any] = {"kind": score, "reduction": "mean", "label": "feature ablation", "at_once": 1}
    return attribute(model, processor, cases, explainer, **options, gradients=False, progress=progress)


def _window(batch: Batch, window: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The window's shape and step in the values' own axes, without the batch."""
    boxes, audio_input = batch.cases[0].prepared.boxes, batch.cases[0].prepared.audio_input
    if audio_input is not None:
        return _stretch_window(batch, audio_input, window)
    if boxes is None:
        length, width = batch.values.shape[1:]
        return (min(window, length), width), (1, width)
    left, top, right, bottom = next(box for box in boxes if box is not None)
    channels, height, width = batch.values.shape[1:]
    size = (min(window * (bottom - top), height), min(window * (right - left), width))
    return (channels, *size), (channels, bottom - top, right - left)


def _stretch_window(batch: Batch, audio_input: AudioInput, window: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if batch.cases[0].prepared.sequences:
        raise InputError("no window slides over sound and what was written of it; use methods=['blankout']")
    shape = list(batch.values.shape[1:])
    cells = [cell for cell in audio_input.cells if cell is not None]
    middle = cells[len(cells) // 2]
    steps = [len(range(*part.indices(size))) for part, size in zip(middle, shape, strict=True)]
    return tuple(min(window * step, size) for step, size in zip(steps, shape, strict=True)), tuple(steps)


def _features(batch: Batch) -> tuple[Tensor, Tensor]:
    """For every number of the values, which word or patch it belongs to, and how many positions share it.

    What belongs to none, special tokens, is feature 0: its baseline is what it is already.
    """
    (case,) = batch.cases
    features = torch.zeros_like(batch.values, dtype=torch.long)
    pieces = torch.ones_like(batch.values)
    if case.prepared.audio_input is not None:
        _mark_stretches(case.prepared, features, pieces)
        return features, pieces
    if case.prepared.boxes is None:
        for number, word in enumerate(case.prepared.words, start=1):
            features[0, list(word.positions)] = number
            pieces[0, list(word.positions)] = len(word.positions)
        return features, pieces
    for number, box in enumerate((box for box in case.prepared.boxes if box is not None), start=1):
        left, top, right, bottom = box
        features[0, :, top:bottom, left:right] = number
    return features, pieces


def _mark_stretches(prepared: PreparedInput, features: Tensor, pieces: Tensor) -> None:
    """Each stretch of the sound and each written word a feature, its score shared out among its positions."""
    audio_input = prepared.audio_input
    assert audio_input is not None
    (audio, output), (shares, others) = (
        split_streams(tensor[0], prepared) if prepared.sequences else (tensor[0], None) for tensor in (features, pieces)
    )
    written = [word.positions for word in prepared.words if word.segment]
    for number, places in enumerate([*prepared.positions.time_segments, *written], start=1):
        for place in places:
            cell = audio_input.cells[place] if place < len(audio_input.cells) else None
            if cell is not None:
                audio[cell], shares[cell] = number, len(places)
            elif output is not None and others is not None:
                output[place - prepared.encoder_length] = number
                others[place - prepared.encoder_length] = len(places)


def _together(model: nn.Module, batch: Batch) -> int:
    return max(1, max_batch_positions(model) // len(batch.cases[0].prepared.positions))


MOST_GROUPS = 256
"""Patches of a ViT at 224 pixels still go one by one: 14 × 14."""


def patch_groups(prepared: PreparedInput, side: int | None) -> list[tuple[int, ...]]:
    """Positions of the patches in squares of `side` × `side`, smaller ones at the edges.

    By default one by one, and in the smallest squares of which there are no more than 256.
    """
    if prepared.boxes is None:
        raise InputError("group is for the patches of an image; a text is blanked by unit='token' or 'word'")
    if side is not None and whole_number("group", side) < 1:
        raise ChoiceError(f"group={side} was requested; the side of a square of patches is at least 1")
    cells = {place: box[:2] for place, box in enumerate(prepared.boxes) if box is not None}
    columns, rows = (sorted({cell[axis] for cell in cells.values()}) for axis in (0, 1))
    if side is None:
        side = next(index for index in count(1) if _squares(len(rows), len(columns), index) <= MOST_GROUPS)
    groups: dict[tuple[int, int], list[int]] = {}
    for place, (left, top) in cells.items():
        groups.setdefault((rows.index(top) // side, columns.index(left) // side), []).append(place)
    return [tuple(several) for several in groups.values()]


def _squares(rows: int, columns: int, side: int) -> int:
    return -(-rows // side) * -(-columns // side)


OCCLUSION = Reference(
    "occlusion",
    occlusion,
    paper="Zeiler & Fergus 2014",
    costs="a run for each window",
    forwards=lambda positions, **options: positions + 1,
    signed=True,
    options=("window", "baseline", "score"),
)
FEATURE_ABLATION = Reference(
    "feature_ablation",
    feature_ablation,
    title="feature ablation",
    paper="Captum",
    costs="a run for each word or patch",
    forwards=lambda positions, **options: positions + 1,
    signed=True,
    options=("baseline", "score"),
)


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
    baseline: Named = None,
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
    stretches of sound, where many are grouped anyway. What stands for nothing is chosen by rule, or `baseline` (see
    `choose_baseline`). `positions` says for each case which to blank, by default all that are not special tokens; the
    others score 0. `at_once` bounds a batch in positions. Not `exact` no variant is run: s' is a
    first-order estimate by slopes (see `estimate`).
    """
    model = unwrap_model(model)
    kind = check_score(score, model, "margin", kind_of([case.target for case in cases]))
    if at_once is not None and at_once < 1:
        raise InputError(f"at_once must be at least 1 position, found {at_once}")
    units = _units(cases, unit, positions, group)
    variants = [Perturbation(number, places) for number, several in enumerate(units) for places in several]
    whole = [Perturbation(number) for number in range(len(cases))]
    chosen = choose_baseline(model, adapter_for(model), processor, cases[0].prepared, baseline)
    options: dict[str, Any] = {"kind": kind, "baseline": chosen, "progress": progress}
    run = partial(measure, at_once=at_once) if exact else estimate
    measured = run(model, processor, cases, whole + variants, **options)
    scores = [np.zeros(len(case.prepared.positions)) for case in cases]
    for variant, after in zip(variants, measured[len(whole) :], strict=True):
        change = measured[variant.case] - after
        scores[variant.case][list(variant.places)] = (change if signed else abs(change)) / len(variant.places)
    facts = {"score": kind, "baseline": chosen.name, **({} if exact else {"estimate": FIRST_ORDER})}
    notes = () if exact else (NOTE.format("blankout"),)
    return [
        Scored(array, {**facts, "before": float(before)}, notes, signed=signed)
        for array, before in zip(scores, measured, strict=False)
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
    if all(case.prepared.audio_input is not None for case in cases) and unit != "span":
        return [_in_time(case, group) for case in cases]
    if group is not None or all(case.prepared.boxes is not None for case in cases):
        return [patch_groups(case.prepared, group) for case in cases]
    if unit == "span":
        if not all(case.prepared.spans for case in cases):
            raise ChoiceError(
                "unit='span' was requested, but no spans were given: explain(…, spans={'doc 1': (0, 812), …})"
            )
        return [case.units for case in cases]
    if unit == "word":
        return [[word.positions for word in case.prepared.words] for case in cases]
    return [[(place,) for place in case.content] for case in cases]


MOST_STRETCHES = 64
"""Of half a minute, half a second each."""


def _in_time(case: Case, size: int | None) -> list[tuple[int, ...]]:
    """Neighbouring stretches of sound, and each token that was written of it."""
    if size is not None and whole_number("group", size) < 1:
        raise ChoiceError(f"group={size} was requested; a group has at least 1 time segment")
    source = case.prepared.encoder_length
    time_segments = len(case.prepared.positions.time_segments)
    groups = stretch_groups(case.prepared, size or -(-time_segments // MOST_STRETCHES) or 1)
    return [*groups, *((place,) for place in case.content if source and place >= source)]


BLANKOUT = Reference(
    "blankout",
    blankout,
    title="blank-out",
    paper="Abnar & Zuidema 2020, §4",
    costs="a run for each position",
    forwards=lambda positions, exact=True, **options: positions + 1 if exact else 2 * STEPS + 3,
    signed=True,
    options=("unit", "score", "baseline", "group", "signed", "exact", "positions", "at_once"),
)
