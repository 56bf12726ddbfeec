"""The trained image–text decoder that ships with attnx: a stock LLaVA, its processor, and weights in half precision."""

from __future__ import annotations

import copy
import json
import re
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from safetensors.torch import save as serialised
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import LlavaForConditionalGeneration

from attnx.interrupts import uninterrupted
from attnx.tasks.picture_question.generator import COLOURS, COLUMNS, GRID, PATCH, ROWS, SIDE
from attnx.tasks.quiet import quiet
from attnx.tasks.shipped import embedded_name, shipped_directory
from attnx.tasks.word_tokenizer import BEGIN, END, PAD, UNKNOWN, save_tokenizer, wrap

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

    >>> from attnx.tasks.picture_question.generator import generate
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
    weights = {_SHORTER.sub(r"\1vision_model.", name): one for name, one in load_file(file).items()}
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
