"""Scores of patches as one number for every pixel of the original image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attnx.errors import InputError
from attnx.explanation import Explanation

Array = np.ndarray[Any, np.dtype[np.float64]]


def heat(explanation: Explanation, scores: Array, *, smooth: bool = True, size: tuple[int, int] | None = None) -> Array:
    """height × width of the original image: the score of the patch there, NaN where the model saw nothing.

    Smooth, a patch has its own score at its centre and scores between centres are interpolated; otherwise all of its
    box has it. With a `size`, (width, height), it is that of a smaller or larger copy of the image.
    """
    if explanation.image_size is None:
        raise InputError("this is no explanation of an image: it has no patches to lay over one")
    patches = [one for one in explanation.positions if one.box is not None]
    if not patches:
        raise InputError(f"no patch has a box in the original image: {'; '.join(explanation.notes)}")
    width, height = explanation.image_size if size is None else size
    wider, higher = width / explanation.image_size[0], height / explanation.image_size[1]
    columns = _lines([(wider * one.box[0], wider * one.box[2]) for one in patches if one.box])
    rows = _lines([(higher * one.box[1], higher * one.box[3]) for one in patches if one.box])
    grid = np.full((len(rows), len(columns)), np.nan)
    for one in patches:
        if one.box is not None:
            grid[_index(rows, higher * one.box[1]), _index(columns, wider * one.box[0])] = scores[one.index]
    spread = _interpolation if smooth else _membership
    inside = np.outer(_membership(rows, height).sum(1), _membership(columns, width).sum(1)) > 0
    whole: Array = spread(rows, height) @ grid @ spread(columns, width).T
    return np.where(inside, whole, np.nan)


def _lines(spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The rows or columns of the grid: start and end of each, in order."""
    return sorted({round(start, 6): (start, end) for start, end in spans}.values())


def _index(lines: Sequence[tuple[float, float]], start: float) -> int:
    return int(np.argmin([abs(line[0] - start) for line in lines]))


def _interpolation(lines: Sequence[tuple[float, float]], length: int) -> Array:
    """pixel × line: what each line gives to each pixel, by the distance of their centres."""
    centres = [(start + end) / 2 for start, end in lines]
    pixels = np.arange(length) + 0.5
    return np.stack([np.interp(pixels, centres, unit) for unit in np.eye(len(lines))], axis=1)


def _membership(lines: Sequence[tuple[float, float]], length: int) -> Array:
    """pixel × line: 1 where the centre of the pixel is in the line."""
    pixels = np.arange(length)[:, None] + 0.5
    starts, ends = np.transpose(lines)
    inside: Array = ((pixels >= starts) & (pixels < ends)).astype(np.float64)
    return inside
