"""Puts examples into batches of like length, in an order that is a function of the seed and the epoch alone."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnx.errors import InputError
from attnx.tasks.verb_number.examples import Example, Source
from attnx.tasks.verb_number.recipe import Recipe

_BATCHES_PER_BUCKET = 50


@dataclass(frozen=True)
class Batch:
    """Token ids and mask, batch × position, and each sentence's probability of a plural verb."""

    ids: Tensor
    mask: Tensor
    plural: Tensor


def epoch_batches(
    sources: Sequence[Source], token_ids: Mapping[str, Sequence[int]], recipe: Recipe, epoch: int, pad: int
) -> list[Batch]:
    """One epoch. Sentences are sorted by length within buckets, so that little is padded; then batches are shuffled."""
    rng = random.Random(f"epoch {recipe.seed} {epoch}")
    examples = [example for source in sources for example in source.draw(rng)]
    rng.shuffle(examples)
    bucket = recipe.batch * _BATCHES_PER_BUCKET
    batches = [
        chunk
        for start in range(0, len(examples), bucket)
        for chunk in _chunks(
            sorted(examples[start : start + bucket], key=lambda example: len(token_ids[example.text])), recipe.batch
        )
    ]
    rng.shuffle(batches)
    return [_batch(chunk, token_ids, pad) for chunk in batches]


def tokenize(texts: Sequence[str], tokenizer: object, positions: int) -> dict[str, list[int]]:
    """Token ids of each different text; one that the model has no positions for is an error."""
    different = list(dict.fromkeys(texts))
    ids = dict(zip(different, tokenizer(different, verbose=False)["input_ids"], strict=True)) if different else {}  # type: ignore[operator]
    for text, tokens in ids.items():
        if len(tokens) > positions:
            raise InputError(
                f"a sentence has {len(tokens)} tokens, the model {positions} positions; "
                f"delete or shorten it: {text[:60]}…"
            )
    return ids


def padded(rows: Sequence[Sequence[int]], pad: int) -> tuple[Tensor, Tensor]:
    """Rows of token ids as one tensor, filled up with `pad`, and the mask of what is not padding."""
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=pad)
    lengths = torch.tensor([len(row) for row in rows])
    return ids, (torch.arange(ids.shape[1]) < lengths[:, None]).long()


def _batch(examples: Sequence[Example], token_ids: Mapping[str, Sequence[int]], pad: int) -> Batch:
    ids, mask = padded([token_ids[example.text] for example in examples], pad)
    return Batch(ids, mask, torch.tensor([example.plural for example in examples]))


def _chunks(examples: Sequence[Example], size: int) -> Iterator[Sequence[Example]]:
    return (examples[start : start + size] for start in range(0, len(examples), size))
