"""Inputs in groups of like length and bounded size, so that memory does not grow with their number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import nn
from tqdm import tqdm

from attnx.adapters.batch import padding_id

TOKENS_AT_ONCE = 4_096
"""Positions in one batch, padding included: more is no faster on a CPU, and takes more memory."""


def batches(lengths: Sequence[int], tokens_at_once: int) -> Iterator[list[int]]:
    """Indices from short to long. A batch has at most so many positions, and at least one input."""
    order = sorted(range(len(lengths)), key=lambda index: lengths[index])
    batch: list[int] = []
    for index in order:
        # The newcomer is the longest so far, so the whole batch is padded to its length.
        if batch and lengths[index] * (len(batch) + 1) > tokens_at_once:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def bounded(model: nn.Module, tokenizer: Any, tokens_at_once: int) -> tuple[int | None, int]:
    """The padding token, and the bound; without such a token every input is a batch of its own."""
    pad_id = padding_id(model, tokenizer)
    return pad_id, tokens_at_once if pad_id is not None else 1


def bar(label: str, total: int, shown: bool) -> Any:
    """A progress bar on standard error; none where that is no terminal."""
    return tqdm(total=total, desc=label, unit=" sentences", disable=None if shown else True, leave=False)
