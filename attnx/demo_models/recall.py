"""Recall: "k3 v7 k1 v2 k3" goes on with v7. The texts, and the trained Llama that ships with attnx."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from attnx.demo_models.hub import BEGIN, END, PAD, UNKNOWN, DemoModel, word_tokenizer
from attnx.errors import InputError

KEYS = tuple(f"k{number}" for number in range(1, 21))
VALUES = tuple(f"v{number}" for number in range(1, 21))
FEWEST, MOST = 3, 10
"""Pairs in a text."""

Array = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Recall:
    """A text that ends with a key, and the value that belongs to it."""

    text: str
    answer: str
    source: int
    """The number of the word, from 0, that is the answer's one source."""


def generate(count: int, *, seed: int = 0, pairs: int | None = None) -> list[Recall]:
    """Generate this many texts, the same for the same seed, of `pairs` pairs or of 3 to 10.

    >>> example = generate(1, seed=1, pairs=3)[0]
    >>> example.text.split()[example.source] == example.answer
    True
    """
    if count < 1 or (pairs is not None and not 1 <= pairs <= MOST):
        raise InputError(f"count must be at least 1 and pairs 1 to {MOST}, found {count} and {pairs}")
    random = np.random.default_rng(seed)
    return [_example(random, pairs or int(random.integers(FEWEST, MOST + 1))) for _ in range(count)]


def _example(random: np.random.Generator, pairs: int) -> Recall:
    keys, values = (array[0] for array in draw(1, pairs, random))
    index = int(random.integers(pairs))
    words = [word for key, value in zip(keys, values, strict=True) for word in (KEYS[key], VALUES[value])]
    return Recall(" ".join([*words, KEYS[keys[index]]]), VALUES[values[index]], 2 * index + 1)


def draw(count: int, pairs: int, random: np.random.Generator) -> tuple[Array, Array]:
    """Numbers of keys and of values, both count × pairs, none twice in a row."""
    keys, values = (random.random((count, len(words))).argsort(1)[:, :pairs] for words in (KEYS, VALUES))
    return keys, values


ENTRIES = (PAD, UNKNOWN, BEGIN, END, *KEYS, *VALUES)
"""What the model knows, in the order of its ids."""

POSITIONS = 4 * MOST + 2
"""The longest input: all pairs, every key again with its value, the begin and the end."""


def build_tokenizer() -> Any:
    """A token a word. A begin token stands in front, as decoders are trained.

    What looks for nothing in particular rests on the first token (it is the sink). Without a begin token that would be
    the first key, which would seem to matter in every text.
    """
    return word_tokenizer(ENTRIES, POSITIONS, f"{BEGIN} $A")


MODEL = DemoModel("recall", "LlamaForCausalLM", build_tokenizer)
save = MODEL.save


def load_demo() -> tuple[Any, Any]:
    """The model, in float32 and in evaluation mode, and its tokenizer.

    >>> model, tokenizer = load_demo()
    >>> logits = model(**tokenizer("k3 v7 k1 v2 k8 v5 k1", return_tensors="pt")).logits
    >>> tokenizer.decode(logits[0, -1].argmax())
    'v2'
    """
    return MODEL.load()
