"""Pictures of coloured squares with a question about one of them: which patch shows the colour is known.

    which colour is the square at the top left ?   →   it is red

A picture has six parts, three at the top and three at the bottom. Each has one square, in a patch of its own, at
random, and no two squares of a picture have one colour. So the colour that is answered stands in one patch; another
colour there makes another answer, and nothing else in the picture does. The question says where to look: it does not
say what is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from attnx.errors import InputError

GRID, PATCH = 6, 8
"""Patches on a side, and pixels on a side of a patch."""
SIDE = GRID * PATCH

SQUARE = ["........", ".xxxxxx.", ".xxxxxx.", ".xxxxxx.", ".xxxxxx.", ".xxxxxx.", ".xxxxxx.", "........"]
ROWS, COLUMNS = ("top", "bottom"), ("left", "middle", "right")
"""The parts of a picture."""
COLOURS = {
    "red": (230, 30, 30),
    "green": (30, 180, 50),
    "blue": (40, 70, 240),
    "yellow": (245, 225, 30),
    "white": (250, 250, 250),
    "pink": (245, 90, 200),
    "cyan": (30, 220, 230),
    "orange": (250, 140, 20),
}

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class PictureQuestion:
    """A picture, a question about it, and what is right."""

    image: Image.Image
    question: str
    colour: str
    cell: tuple[int, int]
    """Row and column of the patch that shows it."""

    @property
    def answer(self) -> str:
        return f"it is {self.colour}"

    @property
    def token(self) -> str:
        """The name that an explanation gives to the patch."""
        return "r{}c{}".format(*self.cell)


def generate(count: int, *, seed: int = 0, enlarged: int = 1) -> list[PictureQuestion]:
    """So many pictures with questions, the same for the same seed; pixels may be `enlarged` to squares of pixels.

    >>> one = generate(1, seed=3)[0]
    >>> one.question, one.answer, one.token
    ('which colour is the square at the top left ?', 'it is cyan', 'r0c0')
    """
    if count < 1 or enlarged < 1:
        raise InputError(f"count and enlarged must be at least 1, found {count} and {enlarged}")
    random = np.random.default_rng(seed)
    return [draw(random, enlarged=enlarged) for _ in range(count)]


def draw(random: np.random.Generator, *, enlarged: int = 1) -> PictureQuestion:
    """One picture and a question."""
    parts = [(row, column) for row in range(len(ROWS)) for column in range(len(COLUMNS))]
    colours = [str(one) for one in random.permutation(list(COLOURS))[: len(parts)]]
    high, wide = GRID // len(ROWS), GRID // len(COLUMNS)
    cells = [
        (row * high + int(random.integers(high)), column * wide + int(random.integers(wide))) for row, column in parts
    ]
    pixels = _background(random)
    for colour, cell in zip(colours, cells, strict=True):
        _paint(pixels, SQUARE, COLOURS[colour], cell)
    asked = int(random.integers(len(parts)))
    row, column = parts[asked]
    picture = np.round(np.clip(pixels, 0, 255)).astype(np.uint8).repeat(enlarged, 0).repeat(enlarged, 1)
    question = f"which colour is the square at the {ROWS[row]} {COLUMNS[column]} ?"
    return PictureQuestion(Image.fromarray(picture), question, colours[asked], cells[asked])


def _background(random: np.random.Generator) -> Array:
    """A slope between four dark colours, with noise on every pixel."""
    corners = random.uniform(20, 90, (2, 2, 3))
    ramp = np.linspace(0, 1, SIDE)
    weights = np.stack([1 - ramp, ramp], 1)
    noisy: Array = np.einsum("ya,xb,abc->yxc", weights, weights, corners) + random.normal(0, 12, (SIDE, SIDE, 3))
    return noisy


def _paint(pixels: Array, mark: Sequence[str], colour: tuple[int, int, int], cell: tuple[int, int]) -> None:
    inked = np.array([[one == "x" for one in line] for line in mark])
    top, left = (PATCH * one for one in cell)
    patch = pixels[top : top + PATCH, left : left + PATCH]
    patch[inked] = 0.1 * patch[inked] + 0.9 * np.array(colour)
