"""The trained image–text decoder that ships with attnx: a stock LLaVA, its processor, and weights in half precision."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from safetensors.torch import load_file
from safetensors.torch import save as serialised
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import LlavaForConditionalGeneration

from attnx._signals import uninterrupted
from attnx.demo_models.hub import (
    BEGIN,
    END,
    PAD,
    UNKNOWN,
    embedded_name,
    quiet,
    save_tokenizer,
    shipped_directory,
    wrap,
)
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
    index = int(random.integers(len(parts)))
    row, column = parts[index]
    picture = np.round(np.clip(pixels, 0, 255)).astype(np.uint8).repeat(enlarged, 0).repeat(enlarged, 1)
    question = f"which colour is the square at the {ROWS[row]} {COLUMNS[column]} ?"
    return PictureQuestion(Image.fromarray(picture), question, colours[index], cells[index])


def _background(random: np.random.Generator) -> Array:
    """A slope between four dark colours, with noise on every pixel."""
    corners = random.uniform(20, 90, (2, 2, 3))
    ramp = np.linspace(0, 1, SIDE)
    weights = np.stack([1 - ramp, ramp], 1)
    noisy: Array = np.einsum("ya,xb,abc->yxc", weights, weights, corners) + random.normal(0, 12, (SIDE, SIDE, 3))
    return noisy


def _paint(pixels: Array, mark: Sequence[str], colour: tuple[int, int, int], cell: tuple[int, int]) -> None:
    inked = np.array([[name == "x" for name in line] for line in mark])
    top, left = (PATCH * index for index in cell)
    patch = pixels[top : top + PATCH, left : left + PATCH]
    patch[inked] = 0.1 * patch[inked] + 0.9 * np.array(colour)


IMAGE = "<image>"
_WORDS = ("which", "colour", "is", "the", "square", "at", "?", "it")
ENTRIES = (PAD, UNKNOWN, BEGIN, END, IMAGE, *_WORDS, *ROWS, *COLUMNS, *COLOURS)
"""What the model knows, in the order of its ids."""

MEAN, DEVIATION = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
"""Of each channel, by which pixels are scaled: those of CLIP."""

POSITIONS = GRID * GRID + 16
"""The longest input: a picture, a question, and the answer."""


def build_processor() -> Any:
    """A token a word, and a token for each patch where the picture stands in the text."""
    with quiet():
        from transformers import CLIPImageProcessor, LlavaProcessor  # which remark that torchvision is not there

        pixels = CLIPImageProcessor(
            size={"height": SIDE, "width": SIDE}, do_center_crop=False, image_mean=list(MEAN), image_std=list(DEVIATION)
        )
        return LlavaProcessor(
            pixels,
            _tokenizer(),
            patch_size=PATCH,
            vision_feature_select_strategy="default",
            num_additional_image_tokens=1,
            image_token=IMAGE,
        )


def load_demo() -> tuple[Any, Any]:
    """The model, in float32 and in evaluation mode, and its processor.

    >>> from attnx.demo_models.picture_question import generate
    >>> model, processor = load_demo()
    >>> asked = generate(1, seed=6)[0]
    >>> given = processor(images=asked.image, text=f"<image> {asked.question}", return_tensors="pt")
    >>> written = model.generate(**given)[0, given["input_ids"].shape[1] :]
    >>> processor.decode(written, skip_special_tokens=True) == asked.answer
    True
    """
    # In one piece: a Ctrl-C in the middle would leave the libraries' log as it is set here.
    return uninterrupted(_load_demo)


def _load_demo() -> tuple[Any, Any]:
    with demo_directory() as directory, quiet():
        model = LlavaForConditionalGeneration.from_pretrained(directory).float().eval()
        model.config.name_or_path = embedded_name("picture-question")
        return model, build_processor()


def demo_directory() -> AbstractContextManager[Path]:
    """Where the shipped model lies."""
    return shipped_directory("picture-question")


def save(model: Any, directory: Path) -> None:
    """Write a model and its processor so that `attnx explain --model` takes them. The model is left as it is."""
    directory.mkdir(parents=True, exist_ok=True)
    with quiet():
        copy.deepcopy(model).half().save_pretrained(directory)
        processor = build_processor()
        processor.save_pretrained(directory)
        processor.image_processor.save_pretrained(directory)
        save_tokenizer(processor.tokenizer, directory)
    _for_every_version(directory)


def _for_every_version(directory: Path) -> None:
    """As older versions of transformers read it: pixels have a file of their own, weights their longer names."""
    settings = directory / "processor_config.json"
    own = json.loads(settings.read_text(encoding="utf-8"))
    own.pop("image_processor", None)
    settings.write_text(json.dumps(own, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    file = directory / "model.safetensors"
    weights = {_SHORTER.sub(r"\1vision_model.", name): tensor for name, tensor in load_file(file).items()}
    file.write_bytes(serialised(weights, {"format": "pt"}))


_SHORTER = re.compile(r"^((?:model\.)?vision_tower\.)(?!vision_model\.)")


def _tokenizer() -> Any:
    vocab = {entry: number for number, entry in enumerate(ENTRIES)}
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token=UNKNOWN))
    tokenizer.add_special_tokens([PAD, UNKNOWN, BEGIN, END, IMAGE])
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A", special_tokens=[(BEGIN, vocab[BEGIN])]
    )
    return wrap(tokenizer, POSITIONS)
