"""Where in the original image each pixel lies that the model reads, measured on the processor itself.

Image processors resize, crop and pad in many ways and versions. Instead of reading their settings, attnx lets them
process pictures whose pixels say where they are: a ramp from dark to bright along each axis. What comes out tells, for
each column and row, which column or row of the original it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Process: TypeAlias = Callable[[Any], Array]
"""From a PIL picture to its pixel values, channel × height × width."""


@dataclass(frozen=True)
class Axis:
    """One axis of the way from the original to the pixel values: `pixel = scale · original + shift`."""

    scale: float
    shift: float
    length: int
    """Of the original, in pixels."""

    def original(self, start: float, end: float) -> tuple[float, float] | None:
        """The part of the original under the pixels from `start` to `end`; None where they are all padding."""
        low, high = ((edge - self.shift) / self.scale for edge in (start, end))
        low, high = max(low, 0.0), min(high, float(self.length))
        return (low, high) if high - low > 1e-6 else None


@dataclass(frozen=True)
class Geometry:
    """The way of an image through its processor."""

    x: Axis
    y: Axis

    def original(self, box: tuple[float, float, float, float]) -> tuple[float, float, float, float] | None:
        """The box in the original image under a box of the pixel values; None where that is all padding."""
        left, top, right, bottom = box
        across, down = self.x.original(left, right), self.y.original(top, bottom)
        return None if across is None or down is None else (across[0], down[0], across[1], down[1])


def measured_geometry(process: Process, size: tuple[int, int], mode: str) -> Geometry | None:
    """How pictures of this (width, height) and mode are placed in the pixel values.

    None where the processor does more than to scale, crop and pad, so that columns and rows stay no columns and rows.
    """
    width, height = size
    dark, bright = (process(_painted(np.full(1, shade), size, mode)) for shade in (0.0, 1.0))
    if dark.ndim != 3 or dark.shape != bright.shape:
        return None
    contrast = bright - dark
    inked = np.abs(contrast) > 1e-6 * max(np.abs(contrast).max(), 1e-12)

    def seen(ramp: Array, axis: int) -> Array:
        """Per pixel along the axis, how bright the ramp is there: 0 to 1, and NaN where there is padding."""
        ramped = process(_painted(ramp[:, None] if axis == 0 else ramp, size, mode))
        if ramped.shape != dark.shape:
            return np.full(dark.shape[1 + axis], np.nan)
        bright_share = np.where(inked, (ramped - dark) / np.where(inked, contrast, 1), np.nan)
        lines = np.moveaxis(bright_share, 1 + axis, 0).reshape(dark.shape[1 + axis], -1)
        covered = ~np.isnan(lines).all(1)
        profile = np.full(len(lines), np.nan)
        profile[covered] = np.nanmedian(lines[covered], axis=1)
        return profile

    across = _measured_axis(lambda ramp: seen(ramp, 1), width)
    down = _measured_axis(lambda ramp: seen(ramp, 0), height)
    return None if across is None or down is None else Geometry(across, down)


def _measured_axis(seen: Callable[[Array], Array], length: int) -> Axis | None:
    """A ramp finds roughly what is seen of the axis; a bar in the midst of that finds it to a part of a pixel."""
    if length < 4:
        return _whole(seen(np.ones(length)), length)
    places = length * seen((np.arange(length) + 0.5) / length)  # in the original, NaN at padding
    if np.isnan(places).all():
        return None
    first, last = float(np.nanmin(places)), float(np.nanmax(places))
    quarter = max(1, round((last - first) / 4))
    start, end = floor(first) + quarter, ceil(last) - quarter
    if end - start < 1:
        return None
    bar = np.zeros(length)
    bar[start:end] = 1
    line = _line_through(seen(bar), start, end)
    return None if line is None or not _agrees(line, places) else _in_whole_pixels(line, (first, last), length)


def _line_through(profile: Array, start: int, end: int) -> tuple[float, float] | None:
    """Scale and shift, when a bar from `start` to `end` looks like this.

    Resampling blurs the edges of the bar but keeps how much is dark on either side of it, so that an edge is found much
    more exactly than a pixel.
    """
    covered = np.flatnonzero(~np.isnan(profile))
    bright = np.nan_to_num(profile)
    if not len(covered) or bright.max() < 0.5:
        return None
    middle = round(float(np.flatnonzero(bright > 0.5).mean()))
    dark = 1 - profile
    left = covered[0] + np.nansum(dark[:middle])
    right = covered[-1] + 1 - np.nansum(dark[middle:])
    scale = (right - left) / (end - start)
    return (float(scale), float(left - scale * start)) if scale > 0 else None


def _agrees(line: tuple[float, float], places: Array) -> bool:
    """Whether the ramp is where the line says, but for its 256 shades and for what resampling bends at its ends."""
    scale, shift = line
    off = np.abs(scale * places + shift - np.arange(len(places)) - 0.5)
    bent = 3 * max(1.0, scale) + scale * len(places) / 64
    return bool(np.nanmax(off) <= bent + scale * np.nanmax(places) / 128)


def _in_whole_pixels(line: tuple[float, float], ends: tuple[float, float], length: int) -> Axis:
    """The line that resizing to a whole number of pixels and moving by whole pixels gives, if it agrees."""
    scale, shift = line

    def distance(resized: int, moved: int) -> float:
        return max(abs(place * (scale - resized / length) + shift - moved) for place in ends)

    middle = sum(ends) / 2
    near = [max(1, round(scale * length) + step) for step in (0, 1, -1, 2, -2)]
    lines = [(resized, round(middle * (scale - resized / length) + shift)) for resized in near]
    resized, moved = min(lines, key=lambda one: distance(*one))
    if distance(resized, moved) < 0.4:
        return Axis(resized / length, float(moved), length)
    return Axis(scale, shift, length)


def _whole(profile: Array, length: int) -> Axis | None:
    """A few pixels make no ramp: all of them are taken to fill all that is not padding."""
    covered = np.flatnonzero(~np.isnan(profile))
    if not len(covered):
        return None
    first, last = float(covered[0]), float(covered[-1])
    return Axis((last + 1 - first) / length, first, length)


def _painted(shades: Array, size: tuple[int, int], mode: str) -> Any:
    """A picture of this size from one line of shades between 0 and 1, all its lines alike."""
    from PIL import Image

    line = np.round(255 * shades).astype(np.uint8)
    return Image.fromarray(np.ascontiguousarray(np.broadcast_to(line, size[::-1]))).convert(mode)
