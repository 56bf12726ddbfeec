"""The trained decoder that ships with attnx: a stock Llama, its tokenizer, and weights in half precision."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import LlamaForCausalLM

from attnx.tasks.recall.generator import KEYS, MOST, VALUES
from attnx.tasks.shipped import load_halves, save_halves, shipped_directory
from attnx.tasks.word_tokenizer import BEGIN, END, PAD, UNKNOWN, wrap

ENTRIES = (PAD, UNKNOWN, BEGIN, END, *KEYS, *VALUES)
"""What the model knows, in the order of its ids."""

POSITIONS = 4 * MOST + 2
"""The longest input: all pairs, every key again with its value, the begin and the end."""


def build_tokenizer() -> Any:
    """A token a word. A begin token stands in front, as decoders are trained.

    What looks for nothing in particular rests on the first token (it is the sink). Without a begin token that would be
    the first key, which would seem to matter in every text.
    """
    vocab = {entry: number for number, entry in enumerate(ENTRIES)}
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A", special_tokens=[(BEGIN, vocab[BEGIN])]
    )
    return wrap(tokenizer, POSITIONS)


def load_demo() -> tuple[Any, Any]:
    """The model, in float32 and in evaluation mode, and its tokenizer.

    >>> model, tokenizer = load_demo()
    >>> logits = model(**tokenizer("k3 v7 k1 v2 k8 v5 k1", return_tensors="pt")).logits
    >>> tokenizer.decode(logits[0, -1].argmax())
    'v2'
    """
    return load_halves("recall", LlamaForCausalLM)


def demo_directory() -> AbstractContextManager[Path]:
    """Where the shipped model lies."""
    return shipped_directory("recall")


def save(model: Any, directory: Path) -> None:
    """Write a model and its tokenizer so that `attnx generate --model` takes them. The model is left as it is."""
    save_halves(model, build_tokenizer(), directory)
