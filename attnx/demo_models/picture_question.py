"""Images with a question ("which colour is the square at the top left ?") and the LLaVA that ships with attnx."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from attnx.demo_models.hub import BEGIN, END, PAD, UNKNOWN, DemoModel, word_tokenizer
from attnx.demo_models.planted_patch import SQUARE, backgrounds, mask_of
from attnx.errors import InputError

GRID, PATCH = 6, 8
"""Patches on a side, and pixels on a side of a patch."""
SIDE = GRID * PATCH

ROWS, COLUMNS = ("top", "bottom"), ("left", "middle", "right")
"""The parts of an image."""
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


@dataclass(frozen=True, eq=False)
class PictureQuestion:
    """An image, a question about it, and the right answer."""

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
    """Generate this many images with questions, the same for the same seed; pixels may be `enlarged` to squares.

    >>> example = generate(1, seed=3)[0]
    >>> example.question, example.answer, example.token
    ('which colour is the square at the top left ?', 'it is cyan', 'r0c0')
    """
    if count < 1 or enlarged < 1:
        raise InputError(f"count and enlarged must be at least 1, found {count} and {enlarged}")
    random = np.random.default_rng(seed)
    return [draw(random, enlarged=enlarged) for _ in range(count)]


def draw(random: np.random.Generator, *, enlarged: int = 1) -> PictureQuestion:
    """Draw one image and a question."""
    parts = [(row, column) for row in range(len(ROWS)) for column in range(len(COLUMNS))]
    colours = list(map(str, random.permutation(list(COLOURS))[: len(parts)]))
    high, wide = GRID // len(ROWS), GRID // len(COLUMNS)
    cells = [
        (row * high + int(random.integers(high)), column * wide + int(random.integers(wide))) for row, column in parts
    ]
    pixels, square = backgrounds(1, SIDE, random, colors=(20, 90), noise=12)[0], mask_of(SQUARE)
    for colour, (top, left) in zip(colours, cells, strict=True):
        patch = pixels[PATCH * top : PATCH * (top + 1), PATCH * left : PATCH * (left + 1)]
        patch[square] = 0.1 * patch[square] + 0.9 * np.array(COLOURS[colour])
    index = int(random.integers(len(parts)))
    row, column = parts[index]
    image = np.round(np.clip(pixels, 0, 255)).astype(np.uint8).repeat(enlarged, 0).repeat(enlarged, 1)
    question = f"which colour is the square at the {ROWS[row]} {COLUMNS[column]} ?"
    return PictureQuestion(Image.fromarray(image), question, colours[index], cells[index])


IMAGE = "<image>"
_WORDS = ("which", "colour", "is", "the", "square", "at", "?", "it")
ENTRIES = (PAD, UNKNOWN, BEGIN, END, IMAGE, *_WORDS, *ROWS, *COLUMNS, *COLOURS)
"""What the model knows, in the order of its ids."""

MEAN, DEVIATION = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
"""Of each channel, by which pixels are scaled: those of CLIP."""

POSITIONS = GRID * GRID + 16
"""The longest input: an image, a question, and the answer."""


def build_processor() -> Any:
    """A token a word, and a token for each patch of the image."""
    from transformers import CLIPImageProcessor, LlavaProcessor  # which remark that torchvision is not there

    pixels = CLIPImageProcessor(
        size={"height": SIDE, "width": SIDE}, do_center_crop=False, image_mean=list(MEAN), image_std=list(DEVIATION)
    )
    return LlavaProcessor(
        pixels,
        word_tokenizer(ENTRIES, POSITIONS, f"{BEGIN} $A", special=[PAD, UNKNOWN, BEGIN, END, IMAGE]),
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        image_token=IMAGE,
    )


MODEL = DemoModel("picture-question", "LlavaForConditionalGeneration", build_processor)
save = MODEL.save


def load_demo() -> tuple[Any, Any]:
    """The model, in float32 and in evaluation mode, and its processor.

    >>> from attnx.demo_models.picture_question import generate
    >>> model, processor = load_demo()
    >>> example = generate(1, seed=6)[0]
    >>> inputs = processor(images=example.image, text=f"<image> {example.question}", return_tensors="pt")
    >>> generated = model.generate(**inputs)[0, inputs["input_ids"].shape[1] :]
    >>> processor.decode(generated, skip_special_tokens=True) == example.answer
    True
    """
    return MODEL.load()
