"""Patches of an image painted over: in gray, in the picture's mean colour, or out of focus."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import torch
from torch import Tensor

from attnx.attention.rows import rows_to_one
from attnx.inputs.adapter import Box, Prepared

Fill: TypeAlias = Callable[[Prepared, Any], Tensor]
"""(image, processor) → what stands in place of its pixels, or of a colour each."""


def painted(prepared: Prepared, places: Sequence[int], fill: Fill, processor: Any) -> Prepared:
    """Something else over the patches at these positions."""
    pixels = prepared.inputs["pixel_values"].clone()
    paint = fill(prepared, processor).expand_as(pixels)
    if prepared.readers is not None:
        covered = torch.isin(prepared.readers, torch.tensor(list(places)))
        return replace(prepared, inputs={**prepared.inputs, "pixel_values": torch.where(covered, paint, pixels)})
    for left, top, right, bottom in _boxes(prepared, places):
        pixels[:, top:bottom, left:right] = paint[:, top:bottom, left:right]
    return replace(prepared, inputs={**prepared.inputs, "pixel_values": pixels})


def _boxes(prepared: Prepared, places: Sequence[int]) -> list[Box]:
    assert prepared.boxes is not None
    return [box for place in places if (box := prepared.boxes[place]) is not None]


def _gray(prepared: Prepared, processor: Any) -> Tensor:
    """Half-way between black and white, as the processor scales pixels; 0 where it does not say."""
    pixels = prepared.inputs["pixel_values"]
    processor = getattr(processor, "image_processor", processor)
    mean, deviation = (getattr(processor, name, None) for name in ("image_mean", "image_std"))
    if mean is None or deviation is None or not getattr(processor, "do_normalize", True):
        return pixels.new_full((1,) * pixels.ndim, 0.5 if getattr(processor, "do_normalize", True) is False else 0.0)
    channels = torch.tensor([(0.5 - one) / other for one, other in zip(mean, deviation, strict=True)]).to(pixels)
    if pixels.ndim == 2:  # patches in rows, the pixels of each channel one behind the other
        return channels.repeat_interleave(pixels.shape[1] // len(channels))
    return channels.expand(pixels.shape[-3])[:, None, None]


def _mean(prepared: Prepared, processor: Any) -> Tensor:
    pixels = prepared.inputs["pixel_values"]
    return pixels.mean(0, keepdim=True) if pixels.ndim == 2 else pixels.mean((-2, -1), keepdim=True)


def _blur(prepared: Prepared, processor: Any) -> Tensor:
    """By a Gaussian as wide as a patch: nothing within one is left to see."""
    pixels = prepared.inputs["pixel_values"]
    left, top, right, bottom = _boxes(prepared, range(len(prepared.positions)))[0]
    for axis, width in ((1, bottom - top), (2, right - left)):
        pixels = _blurred(pixels, axis, float(width))
    return pixels


def _blurred(pixels: Tensor, axis: int, width: float) -> Tensor:
    """Each line is the mean of all, by their distance; at the edges of those that there are."""
    places = torch.arange(pixels.shape[axis], dtype=pixels.dtype, device=pixels.device)
    weights = torch.exp(-(((places[:, None] - places) / width) ** 2) / 2)
    return (pixels.movedim(axis, -1) @ rows_to_one(weights).T).movedim(-1, axis)


FILLS: Mapping[str, Fill] = {"gray": _gray, "mean": _mean, "blur": _blur}
