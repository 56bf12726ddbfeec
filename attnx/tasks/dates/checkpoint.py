"""The trained encoder–decoder that ships with attnx: a stock T5, its tokenizer, and weights in half precision."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import T5ForConditionalGeneration

from attnx.tasks.dates import generator
from attnx.tasks.shipped import load_halves, save_halves, shipped_directory
from attnx.tasks.word_tokenizer import BEGIN, END, PAD, UNKNOWN, wrap

_IN_FRAMES = {word for frame in generator.FRAMES for word in frame.split() if not word.startswith("{")}
ENTRIES = tuple(dict.fromkeys((PAD, UNKNOWN, BEGIN, END, *generator.DRAWN, *generator.FIELDS, *sorted(_IN_FRAMES))))
"""What the model knows, in the order of its ids."""

POSITIONS = 32
"""The longest input; two dates with all that can stand around them are shorter."""


def build_tokenizer() -> Any:
    """A token a word, in small letters; an end token stands behind, as encoder–decoders are trained."""
    vocab = {entry: number for number, entry in enumerate(ENTRIES)}
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(single=f"$A {END}", special_tokens=[(END, vocab[END])])
    return wrap(tokenizer, POSITIONS)


def load_demo() -> tuple[Any, Any]:
    """The model, in float32 and in evaluation mode, and its tokenizer.

    >>> model, tokenizer = load_demo()
    >>> written = model.generate(**tokenizer("the third of march 1998", return_tensors="pt"))
    >>> tokenizer.decode(written[0], skip_special_tokens=True)
    '1998 03 03'
    """
    return load_halves("dates", T5ForConditionalGeneration)


def demo_directory() -> AbstractContextManager[Path]:
    """Where the shipped model lies."""
    return shipped_directory("dates")


def save(model: Any, directory: Path) -> None:
    """Write a model and its tokenizer so that `attnx generate --model` takes them. The model is left as it is."""
    save_halves(model, build_tokenizer(), directory)
