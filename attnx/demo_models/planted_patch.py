"""Images with one planted patch that decides the class, and the trained ViT that ships with attnx."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from attnx.demo_models.hub import DemoModel
from attnx.errors import InputError

GRID, PATCH = 8, 8
"""Patches on a side, and pixels on a side of a patch."""
SIDE = GRID * PATCH
DECOYS = 3
"""Filled squares in each image: as striking as the mark, and the same in all classes."""

MARKS = {
    "cross": ["x......x", ".x....x.", "..x..x..", "...xx...", "...xx...", "..x..x..", ".x....x.", "x......x"],
    "ring": ["..xxxx..", ".x....x.", "x......x", "x......x", "x......x", "x......x", ".x....x.", "..xxxx.."],
    "bars": ["........", "xxxxxxxx", "........", "xxxxxxxx", "........", "xxxxxxxx", "........", "xxxxxxxx"],
    "corner": ["xx......", "xx......", "xx......", "xx......", "xx......", "xx......", "xxxxxxxx", "xxxxxxxx"],
}
LABELS = tuple(MARKS)
SQUARE = ["........", ".xxxxxx.", ".xxxxxx.", ".xxxxxx.", ".xxxxxx.", ".xxxxxx.", ".xxxxxx.", "........"]

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class Planted:
    """An image, its class, and the one patch that shows it."""

    image: Image.Image
    label: str
    row: int
    column: int

    @property
    def box(self) -> tuple[int, int, int, int]:
        """Left, top, right, bottom of the planted patch in the image."""
        across, down = self.image.width // GRID, self.image.height // GRID
        return (self.column * across, self.row * down, (self.column + 1) * across, (self.row + 1) * down)

    @property
    def token(self) -> str:
        """The name that an explanation gives to the patch."""
        return f"r{self.row}c{self.column}"


def generate(count: int, *, seed: int = 0, enlarged: int = 1) -> list[Planted]:
    """Generate this many images, the same for the same seed; each pixel may be `enlarged` to a square of pixels."""
    if count < 1 or enlarged < 1:
        raise InputError(f"count and enlarged must be at least 1, found {count} and {enlarged}")
    pixels, labels, cells = draw(count, np.random.default_rng(seed))
    big = pixels.repeat(enlarged, 1).repeat(enlarged, 2)
    return [
        Planted(Image.fromarray(image), LABELS[label], int(cell) // GRID, int(cell) % GRID)
        for image, label, cell in zip(big, labels, cells, strict=True)
    ]


def draw(count: int, random: np.random.Generator) -> tuple[Array, Array, Array]:
    """Images as count × height × width × RGB, their classes, and the number of the planted patch, row by row."""
    images = backgrounds(count, SIDE, random, colors=(0.1, 0.5), noise=0.06)
    labels = random.integers(len(LABELS), size=count)
    cells = random.random((count, GRID * GRID)).argsort(1)[:, : 1 + DECOYS]
    marks = np.stack([mask_of(MARKS[label]) for label in LABELS])
    for number in range(1 + DECOYS):
        masks = marks[labels] if number == 0 else np.broadcast_to(mask_of(SQUARE), (count, PATCH, PATCH))
        _paint(images, masks, cells[:, number], random)
    return np.round(255 * np.clip(images, 0, 1)).astype(np.uint8), labels, cells[:, 0]


def backgrounds(
    count: int, side: int, random: np.random.Generator, *, colors: tuple[float, float], noise: float
) -> Array:
    """A slope between four colors, with noise on every pixel: count × side × side × RGB."""
    corners = random.uniform(*colors, (count, 2, 2, 3))
    ramp = np.linspace(0, 1, side)
    weights = np.stack([1 - ramp, ramp], 1)
    slope = np.einsum("ya,xb,nabc->nyxc", weights, weights, corners)
    noisy: Array = slope + random.normal(0, noise, slope.shape)
    return noisy


def _paint(images: Array, masks: Array, cells: Array, random: np.random.Generator) -> None:
    """Lighten the masked pixels of one patch in each image, towards a random color."""
    count = len(images)
    colors = random.uniform(0.6, 1.0, (count, 1, 1, 3))
    patches = images.reshape(count, GRID, PATCH, GRID, PATCH, 3)
    rows, columns, numbers = cells // GRID, cells % GRID, np.arange(count)
    under = patches[numbers, rows, :, columns]
    patches[numbers, rows, :, columns] = np.where(masks[..., None], 0.2 * under + 0.8 * colors, under)


def mask_of(lines: Sequence[str]) -> Array:
    return np.array([[character == "x" for character in line] for line in lines])


def build_processor() -> Any:
    """Resizes to the model's side and scales pixels from −1 to 1."""
    from transformers import ViTImageProcessor  # which remarks that torchvision, which is not needed, is not there

    return ViTImageProcessor(size={"height": SIDE, "width": SIDE})


MODEL = DemoModel("planted-patch", "ViTForImageClassification", build_processor)
save = MODEL.save


def load_demo() -> tuple[Any, Any]:
    """The model, in float32 and in evaluation mode, and its image processor."""
    return MODEL.load()
