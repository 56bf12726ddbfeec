"""Occlusion and feature ablation: the score's change when embeddings or pixels are set to a baseline.

Blank-out by another road: Captum replaces the numbers that enter the model instead of the tokens. On one token at a
time and with the same blank, the two must agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attnx.capture.watch import unwrapped
from attnx.errors import InputError
from attnx.references.answer import Score, positions_at_once
from attnx.references.attribution import Batch, attribute
from attnx.references.baseline import Baseline, baseline
from attnx.references.case import Case, Scored


def occlusion(
    model: nn.Module,
    processor: Any,
    cases: Sequence[Case],
    *,
    window: int = 3,
    start: Baseline = "blank",
    score: Score | None = None,
    progress: bool = False,
) -> list[Scored]:
    """A window of so many tokens (or patches, in a square) slides over the input; each position gets the mean change.

    Signed: a position whose neighbourhood speaks against the target scores below 0.
    """
    if window < 1:
        raise InputError(f"window must be at least 1, found {window}")
    model = unwrapped(model)

    def explainer(batch: Batch) -> tuple[Tensor, list[dict[str, float]]]:
        from captum.attr import Occlusion

        shape, strides = _window(batch, window)
        found = Occlusion(batch.forward).attribute(
            batch.values,
            sliding_window_shapes=shape,
            strides=strides,
            baselines=baseline(batch, model, processor, start),
            additional_forward_args=batch.extra,
            perturbations_per_eval=_together(model, batch),
        )
        return found, [{}] * len(batch.cases)

    options: dict[str, Any] = {"kind": score, "reduction": "mean", "label": "occlusion", "at_once": 1}
    return attribute(model, processor, cases, explainer, **options, graph=False, progress=progress)


def feature_ablation(
    model: nn.Module,
    processor: Any,
    cases: Sequence[Case],
    *,
    start: Baseline = "blank",
    score: Score | None = None,
    progress: bool = False,
) -> list[Scored]:
    """Each word (or patch) in turn set to the baseline: the change of the score, shared out among its pieces."""
    model = unwrapped(model)

    def explainer(batch: Batch) -> tuple[Tensor, list[dict[str, float]]]:
        from captum.attr import FeatureAblation

        features, pieces = _features(batch)
        found = FeatureAblation(batch.forward).attribute(
            batch.values,
            feature_mask=features,
            baselines=baseline(batch, model, processor, start),
            additional_forward_args=batch.extra,
            perturbations_per_eval=_together(model, batch),
        )
        return found / pieces, [{}] * len(batch.cases)

    options: dict[str, Any] = {"kind": score, "reduction": "mean", "label": "feature ablation", "at_once": 1}
    return attribute(model, processor, cases, explainer, **options, graph=False, progress=progress)


def _window(batch: Batch, window: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The window's shape and step in the values' own axes, without the batch."""
    boxes = batch.cases[0].prepared.boxes
    if boxes is None:
        length, width = batch.values.shape[1:]
        return (min(window, length), width), (1, width)
    left, top, right, bottom = next(box for box in boxes if box is not None)
    channels, height, width = batch.values.shape[1:]
    size = (min(window * (bottom - top), height), min(window * (right - left), width))
    return (channels, *size), (channels, bottom - top, right - left)


def _features(batch: Batch) -> tuple[Tensor, Tensor]:
    """For every number of the values, which word or patch it belongs to, and how many positions share it.

    What belongs to none, special tokens, is feature 0: its baseline is what it is already.
    """
    (case,) = batch.cases
    features = torch.zeros_like(batch.values, dtype=torch.long)
    pieces = torch.ones_like(batch.values)
    if case.prepared.boxes is None:
        for number, word in enumerate(case.prepared.words, start=1):
            features[0, list(word.positions)] = number
            pieces[0, list(word.positions)] = len(word.positions)
        return features, pieces
    for number, box in enumerate((one for one in case.prepared.boxes if one is not None), start=1):
        left, top, right, bottom = box
        features[0, :, top:bottom, left:right] = number
    return features, pieces


def _together(model: nn.Module, batch: Batch) -> int:
    return max(1, positions_at_once(model) // len(batch.cases[0].prepared.positions))
