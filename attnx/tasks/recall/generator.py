"""Pairs of a key and a value, and one of the keys again: what follows is its value, which stands once in the text.

    k3 v7 k1 v2 k8 v5 k1        →  v2

Keys differ within a text, and so do values. So the answer has one source, the *value* of the asked key: it is the only
place from which "v2" can be had, and another value there makes the other value the answer. The key beside it and the
key at the end say where to look; they do not say what is found. Any pair may be asked, so place gives nothing away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

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
    """So many texts, the same for the same seed, of `pairs` pairs or of 3 to 10.

    >>> one = generate(1, seed=1, pairs=3)[0]
    >>> one.text.split()[one.source] == one.answer
    True
    """
    if count < 1 or (pairs is not None and not 1 <= pairs <= MOST):
        raise InputError(f"count must be at least 1 and pairs 1 to {MOST}, found {count} and {pairs}")
    random = np.random.default_rng(seed)
    return [_one(random, pairs or int(random.integers(FEWEST, MOST + 1))) for _ in range(count)]


def _one(random: np.random.Generator, pairs: int) -> Recall:
    keys, values = (one[0] for one in draw(1, pairs, random))
    asked = int(random.integers(pairs))
    words = [word for key, value in zip(keys, values, strict=True) for word in (KEYS[key], VALUES[value])]
    return Recall(" ".join([*words, KEYS[keys[asked]]]), VALUES[values[asked]], 2 * asked + 1)


def draw(count: int, pairs: int, random: np.random.Generator) -> tuple[Array, Array]:
    """Numbers of keys and of values, both count × pairs, none twice in a row."""
    keys, values = (random.random((count, len(words))).argsort(1)[:, :pairs] for words in (KEYS, VALUES))
    return keys, values
