"""Random orders of a text, drawn by the text itself, in pairs, until chance is known well enough.

An order and its reverse make a pair: what the one removes first the other leaves, so the two err in opposite ways, and
most of what the one needs the other has run already. More pairs are drawn while the mean over them is uncertain by
more than a share of all that removing can do to the text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch

from attnx.inputs.adapter import Prepared

Array = np.ndarray[Any, np.dtype[np.float64]]
Unit: TypeAlias = tuple[int, ...]
Order: TypeAlias = tuple[Unit, ...]
"""Units, the most relevant first, each the positions that go together: one, or those of a span."""

FIRST = 4
"""Orders that every text gets: the spread of two pairs is the least that can be told."""
MOST = 20
NARROW = 0.1
"""The standard error of a text's chance, beside the span of its scores, that is narrow enough: over a dozen texts the
error of the mean is a third of that, small beside how texts differ."""


def generator_of(prepared: Prepared, seed: int, name: str) -> np.random.Generator:
    """Draws that hang on the seed, the input and what they are for, not on the texts around it."""
    digest = hashlib.blake2b(name.encode(), digest_size=16)
    for key, tensor in sorted(prepared.inputs.items()):
        digest.update(key.encode())
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return np.random.default_rng([seed, int.from_bytes(digest.digest(), "big")])


def random_orders(units: Sequence[Unit], random: np.random.Generator) -> Iterator[Order]:
    """Orders without end, each second one the reverse of the one before."""
    while True:
        order = tuple(units[place] for place in random.permutation(len(units)))
        yield order
        yield order[::-1]


def narrow_enough(values: Sequence[Array], span: float) -> bool:
    """Whether the mean of what orders gave (each a row of metrics) is known well beside the `span` of the scores."""
    if span == 0:
        return True
    whole = len(values) // 2 * 2
    pairs = np.array(values[:whole]).reshape(whole // 2, 2, -1).mean(1)
    error = pairs.std(0, ddof=1) / np.sqrt(len(pairs))
    return bool((error <= NARROW * span).all())
