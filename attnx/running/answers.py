"""What a model says of many inputs, in batches, with nothing watched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from torch import nn

from attnx.answer.score import first_answer
from attnx.capturing.capture import answer_of
from attnx.capturing.watch import undisturbed
from attnx.inputs.adapter import Prepared
from attnx.running.batches import collate, in_batches, padding_id, positions_at_once

T = TypeVar("T")


def each_answer(
    model: nn.Module, processor: Any, prepared: Sequence[Prepared], read: Callable[[int, Any, int], T]
) -> list[T]:
    """For each input what `read` makes of (its number, the output of its batch, its place there), in order."""
    pad_id = padding_id(model, processor)
    found: dict[int, T] = {}
    with undisturbed(model):
        for rows, output in in_batches(
            model,
            prepared,
            lambda several: answer_of(model, collate(model, several, pad_id)),
            first=partial(first_answers, model, pad_id),
            pad_id=pad_id,
            at_most=positions_at_once(model, all_answers=True),
        ):
            found |= {row: read(row, output, place) for place, row in enumerate(rows)}
    return [found[row] for row in range(len(prepared))]


def first_answers(model: nn.Module, pad_id: int | None, prepared: Sequence[Prepared]) -> list[Any]:
    """What the model says of the first of some inputs, padded to the longest of them."""
    return first_answer(model, collate(model, prepared, pad_id), len(prepared[0].positions))
