"""The sheets of pixels that a processor makes of pictures, and where on the original each patch of them lies.

A processor may make one sheet of a picture, or cut it into tiles with a small one of the whole beside them. Each sheet
is a way of its own from the original, and is measured as the one of a vision model is (see `geometry`): by pictures
whose pixels say where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from attnx.inputs.adapter import Box
from attnx.inputs.geometry import Array, Geometry, measured_geometry

Process: TypeAlias = Callable[[Sequence[Any]], Tensor]
"""From the pictures to all their pixel values."""

_known: dict[tuple[Any, ...], list[tuple[int, Geometry] | None]] = {}
_MOST_KNOWN = 64


@dataclass(frozen=True)
class Patch:
    """What a position of a tower reads: a box on a sheet of a picture."""

    sheet: int
    box: Box
    row: int
    column: int
    picture: int | None = None
    """The number of the picture, from 0; None where it is all padding."""
    place: tuple[float, float, float, float] | None = None
    """The same in the original."""


@dataclass(frozen=True, eq=False)
class SheetLayout:
    """How pixel values lie: as sheets, or as patches in rows, the pictures one behind the other."""

    cells: tuple[tuple[tuple[int, int], ...], ...] = ()
    """Of each picture in rows: row and column of each of its patches."""
    patch: int = 0
    """Pixels on a side of such a patch."""

    def sheets(self, pixels: Tensor) -> list[Tensor]:
        """channel × height × width each."""
        if not self.cells:
            return list(pixels.reshape(-1, *pixels.shape[-3:])) if pixels.ndim in (4, 5) else []
        found, begin = [], 0
        for cells in self.cells:
            rows = pixels[begin : begin + len(cells)].reshape(len(cells), 3, -1, self.patch, self.patch)[:, :, 0]
            height, width = (self.patch * (1 + max(cell[axis] for cell in cells)) for axis in (0, 1))
            sheet = rows.new_zeros(3, height, width)
            for (down, across), one in zip(cells, rows, strict=True):
                top, left = down * self.patch, across * self.patch
                sheet[:, top : top + self.patch, left : left + self.patch] = one
            found.append(sheet)
            begin += len(cells)
        return found


def layout_of(
    pixels: Tensor, grids: Tensor | None, patch: Any, process: Process, pictures: Sequence[Any]
) -> SheetLayout:
    """Sheets as they are; of patches in rows, which stand in an order of the processor's own, their place by two ramps.

    `grids` is time × rows × columns of each picture.
    """
    if pixels.ndim != 2 or grids is None or not isinstance(patch, int) or pixels.shape[1] % (3 * patch * patch):
        return SheetLayout()
    ramps = [process([_ramp(one, axis) for one in pictures]).double().mean(1) for axis in (0, 1)]
    cells, begin = [], 0
    for count, rows, columns in grids.tolist():
        if count != 1 or any(one.shape != (len(pixels),) for one in ramps):
            return SheetLayout()
        down, across = (one[begin : begin + rows * columns] for one in ramps)
        places = [[0, 0] for _ in range(rows * columns)]
        for axis, (shades, others) in enumerate(((down, columns), (across, rows))):
            for rank, place in enumerate(shades.argsort(stable=True).tolist()):
                places[place][axis] = rank // others
        cells.append(tuple((one[0], one[1]) for one in places))
        begin += rows * columns
    return SheetLayout(tuple(cells), patch)


def _ramp(picture: Any, axis: int) -> Any:
    """From dark to bright, downwards or to the right."""
    from PIL import Image

    width, height = picture.size
    line = np.linspace(0, 255, height if axis == 0 else width).astype(np.uint8)
    shades = np.broadcast_to(line[:, None] if axis == 0 else line, (height, width))
    return Image.fromarray(np.ascontiguousarray(shades)).convert(picture.mode)


def patches_read(readers: Tensor, count: int, layout: SheetLayout) -> list[Patch | None]:
    """Of each position of the tower the box that it reads; None for tokens of its own.

    `readers` is in the shape of the pixels: the position that reads each of them.
    """
    found: list[Patch | None] = [None] * count
    for number, sheet in enumerate(one[0] for one in layout.sheets(readers)):
        boxes = {}
        for position in sorted(set(sheet.flatten().tolist())):
            if position >= 0:
                down, across = (sheet == position).nonzero(as_tuple=True)
                boxes[position] = (int(across.min()), int(down.min()), int(across.max()) + 1, int(down.max()) + 1)
        tops, lefts = (sorted({box[axis] for box in boxes.values()}) for axis in (1, 0))
        for position, box in boxes.items():
            found[position] = Patch(number, box, tops.index(box[1]), lefts.index(box[0]))
    return found


def sheet_geometries(
    process: Process, pictures: Sequence[Any], layout: SheetLayout, key: tuple[Any, ...] | None = None
) -> list[tuple[int, Geometry] | None]:
    """For each sheet the number of its picture and its way from there; None where it is all padding, or bent."""
    name = None if key is None else (*key, *((one.size, one.mode) for one in pictures))
    if name is not None and name in _known:
        return _known[name]
    found = _measured(process, pictures, layout)
    if name is not None:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[name] = found
    return found


def _measured(process: Process, pictures: Sequence[Any], layout: SheetLayout) -> list[tuple[int, Geometry] | None]:
    found: list[tuple[int, Geometry] | None] = []
    for number, picture in enumerate(pictures):
        probed = _Probed(process, pictures, layout, number)
        count = len(probed.sheets(picture))
        found += [None] * (count - len(found))
        for sheet in range(count):
            if found[sheet] is None:
                geometry = measured_geometry(partial(probed.sheet, sheet), picture.size, picture.mode)
                found[sheet] = None if geometry is None else (number, geometry)
    return found


class _Probed:
    """What a processor makes of pictures when one of them is another, each made once."""

    def __init__(self, process: Process, pictures: Sequence[Any], layout: SheetLayout, number: int) -> None:
        self._process, self._pictures, self._layout, self._number = process, pictures, layout, number
        self._made: dict[bytes, list[Array]] = {}

    def sheets(self, probe: Any) -> list[Array]:
        name = probe.tobytes()
        if name not in self._made:
            others = [probe if place == self._number else one for place, one in enumerate(self._pictures)]
            self._made[name] = [one.double().numpy() for one in self._layout.sheets(self._process(others))]
        return self._made[name]

    def sheet(self, number: int, probe: Any) -> Array:
        return self.sheets(probe)[number]


def side_by_side(pictures: Sequence[Any]) -> tuple[Any, list[int]]:
    """All pictures on one canvas, and how far to the right each begins."""
    from PIL import Image

    if len(pictures) == 1:
        return pictures[0], [0]
    gap = max(4, max(one.size[0] for one in pictures) // 40)
    lefts = [sum(one.size[0] + gap for one in pictures[:number]) for number in range(len(pictures))]
    canvas = Image.new("RGB", (lefts[-1] + pictures[-1].size[0], max(one.size[1] for one in pictures)), "white")
    for left, one in zip(lefts, pictures, strict=True):
        canvas.paste(one, (left, 0))
    return canvas, lefts


def as_readers(readers: Tensor, length: int) -> Tensor:
    """Positions of the tower as positions of the whole input, which stand behind so many of the text."""
    return torch.where(readers >= 0, readers + length, -1)
