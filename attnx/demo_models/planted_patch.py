"""Pictures with one planted patch that decides the answer, and the trained model that ships with attnx for them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from transformers import ViTForImageClassification

from attnx._signals import uninterrupted
from attnx.demo_models.hub import quiet, shipped_directory
from attnx.errors import InputError

GRID, PATCH = 8, 8
"""Patches on a side, and pixels on a side of a patch."""
SIDE = GRID * PATCH
DECOYS = 3
"""Filled squares in each picture: as striking as the mark, and the same in all classes."""

MARKS = {
    "cross": ["x......x", ".x....x.", "..x..x..", "...xx...", "...xx...", "..x..x..", ".x....x.", "x......x"],
    "ring": ["..xxxx..", ".x....x.", "x......x", "x......x", "x......x", "x......x", ".x....x.", "..xxxx.."],
    "bars": ["........", "xxxxxxxx", "........", "xxxxxxxx", "........", "xxxxxxxx", "........", "xxxxxxxx"],
    "corner": ["xx......", "xx......", "xx......", "xx......", "xx......", "xx......", "xxxxxxxx", "xxxxxxxx"],
}
LABELS = tuple(MARKS)
_SQUARE = ["........", ".xxxxxx.", ".xxxxxx.", ".xxxxxx.", ".xxxxxx.", ".xxxxxx.", ".xxxxxx.", "........"]

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class Planted:
    """A picture, its class, and the one patch that shows it."""

    image: Image.Image
    label: str
    row: int
    column: int

    @property
    def box(self) -> tuple[int, int, int, int]:
        """Left, top, right, bottom of the planted patch in the picture."""
        across, down = self.image.width // GRID, self.image.height // GRID
        return (self.column * across, self.row * down, (self.column + 1) * across, (self.row + 1) * down)

    @property
    def token(self) -> str:
        """The name that an explanation gives to the patch."""
        return f"r{self.row}c{self.column}"


def generate(count: int, *, seed: int = 0, enlarged: int = 1) -> list[Planted]:
    """So many pictures, the same for the same seed; each pixel may be `enlarged` to a square of pixels."""
    if count < 1 or enlarged < 1:
        raise InputError(f"count and enlarged must be at least 1, found {count} and {enlarged}")
    pixels, labels, places = draw(count, np.random.default_rng(seed))
    big = pixels.repeat(enlarged, 1).repeat(enlarged, 2)
    return [
        Planted(Image.fromarray(picture), LABELS[label], int(place) // GRID, int(place) % GRID)
        for picture, label, place in zip(big, labels, places, strict=True)
    ]


def draw(count: int, random: np.random.Generator) -> tuple[Array, Array, Array]:
    """Pictures as count × height × width × RGB, their classes, and the number of the planted patch, row by row."""
    pictures = _backgrounds(count, random)
    labels = random.integers(len(LABELS), size=count)
    cells = random.random((count, GRID * GRID)).argsort(1)[:, : 1 + DECOYS]
    marks = np.stack([_mask(MARKS[label]) for label in LABELS])
    for number in range(1 + DECOYS):
        masks = marks[labels] if number == 0 else np.broadcast_to(_mask(_SQUARE), (count, PATCH, PATCH))
        _paint(pictures, masks, cells[:, number], random)
    return np.round(255 * np.clip(pictures, 0, 1)).astype(np.uint8), labels, cells[:, 0]


def _backgrounds(count: int, random: np.random.Generator) -> Array:
    """A slope of two colours, with noise on every pixel."""
    corners = random.uniform(0.1, 0.5, (count, 2, 2, 3))
    ramp = np.linspace(0, 1, SIDE)
    weights = np.stack([1 - ramp, ramp], 1)
    slope = np.einsum("ya,xb,nabc->nyxc", weights, weights, corners)
    noisy: Array = slope + random.normal(0, 0.06, (count, SIDE, SIDE, 3))
    return noisy


def _paint(pictures: Array, masks: Array, cells: Array, random: np.random.Generator) -> None:
    """Lighten the masked pixels of one patch in each picture, towards a colour of its own."""
    count = len(pictures)
    colours = random.uniform(0.6, 1.0, (count, 1, 1, 3))
    patches = pictures.reshape(count, GRID, PATCH, GRID, PATCH, 3)
    rows, columns, pictures_ = cells // GRID, cells % GRID, np.arange(count)
    under = patches[pictures_, rows, :, columns]
    patches[pictures_, rows, :, columns] = np.where(masks[..., None], 0.2 * under + 0.8 * colours, under)


def _mask(lines: Sequence[str]) -> Array:
    return np.array([[name == "x" for name in line] for line in lines])


def load_demo() -> tuple[Any, Any]:
    """The model, in float32 and in evaluation mode, and its image processor."""
    # In one piece: a Ctrl-C in the middle would leave the libraries' log as it is set here.
    return uninterrupted(_load_demo)


def _load_demo() -> tuple[Any, Any]:
    with demo_directory() as directory, quiet():
        return ViTForImageClassification.from_pretrained(directory).float().eval(), image_processor()


def demo_directory() -> AbstractContextManager[Path]:
    """Where the shipped model lies."""
    return shipped_directory("planted-patch")


def save(model: Any, directory: Path) -> None:
    """Write a model and its image processor so that `attnx explain --model` takes them."""
    directory.mkdir(parents=True, exist_ok=True)
    with quiet():
        copy.deepcopy(model).half().save_pretrained(directory)
        image_processor().save_pretrained(directory)


def image_processor() -> Any:
    """Resizes to the model's side and scales pixels from −1 to 1."""
    with quiet():
        from transformers import ViTImageProcessor  # which remarks that torchvision, which is not needed, is not there

        return ViTImageProcessor(size={"height": SIDE, "width": SIDE})
