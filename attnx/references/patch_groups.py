"""Patches that are blanked together: an image of a thousand patches would need a thousand runs of the model."""

from __future__ import annotations

from itertools import count

from attnx.adapters import Prepared
from attnx.errors import ChoiceError, InputError
from attnx.methods.choices import whole_number

MOST_GROUPS = 256
"""Patches of a ViT at 224 pixels still go one by one: 14 × 14."""


def patch_groups(prepared: Prepared, side: int | None) -> list[tuple[int, ...]]:
    """Positions of the patches in squares of `side` × `side`, smaller ones at the edges.

    By default one by one, and in the smallest squares of which there are no more than 256.
    """
    if prepared.boxes is None:
        raise InputError("group is for the patches of an image; a text is blanked by unit='token' or 'word'")
    if side is not None and whole_number("group", side) < 1:
        raise ChoiceError(f"group={side} asked; a square of patches has a side of at least 1")
    cells = {place: box[:2] for place, box in enumerate(prepared.boxes) if box is not None}
    columns, rows = (sorted({cell[axis] for cell in cells.values()}) for axis in (0, 1))
    if side is None:
        side = next(one for one in count(1) if _squares(len(rows), len(columns), one) <= MOST_GROUPS)
    groups: dict[tuple[int, int], list[int]] = {}
    for place, (left, top) in cells.items():
        groups.setdefault((rows.index(top) // side, columns.index(left) // side), []).append(place)
    return [tuple(several) for several in groups.values()]


def _squares(rows: int, columns: int, side: int) -> int:
    return -(-rows // side) * -(-columns // side)
