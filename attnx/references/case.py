"""One input with what is asked of it; a reference takes many of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import nn

from attnx.adapters import Prepared, adapter_for
from attnx.adapters.batch import collate, padding_id
from attnx.batching import batches, takes_padding
from attnx.capture.watch import undisturbed, unwrapped
from attnx.prediction import predict
from attnx.references.answer import first_answer, positions_at_once
from attnx.target import Target

Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, eq=False)
class Case:
    """A prepared input, and the class or token whose score a reference explains."""

    prepared: Prepared
    target: Target

    @property
    def content(self) -> list[int]:
        """The positions that are no special tokens."""
        return content_positions(self.prepared)


@dataclass(frozen=True, eq=False)
class Scored:
    """One score for each position of a case, and what else was learnt while measuring."""

    scores: Array
    facts: Mapping[str, float | str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """What the user should know before believing the scores."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "scores", np.asarray(self.scores, dtype=np.float64))


def cases(
    model: nn.Module, processor: Any, prepared: Sequence[Prepared], *, target: Any = None, position: int | None = None
) -> list[Case]:
    """A case for each input: by default of what the model predicts, read at the position that its adapter explains."""
    model = unwrapped(model)
    adapter = adapter_for(model)
    pad_id = padding_id(model, processor)
    found: dict[int, Case] = {}

    with undisturbed(model):
        mixed = mixes_lengths(model, prepared, pad_id)
        lengths = [len(one.positions) for one in prepared]
        shapes, most = [one.shape for one in prepared], positions_at_once(model, all_answers=True)
        for rows in batches(lengths, mixed=mixed, positions=most, shapes=shapes):
            output = model(**collate(model, [prepared[row] for row in rows], pad_id))
            for place, row in enumerate(rows):
                where = adapter.explained(model, processor, prepared[row]) if position is None else position
                prediction = predict(model, processor, output, place, where, target)
                found[row] = Case(prepared[row], Target.of(model, processor, prediction, where, target))
    return [found[row] for row in range(len(prepared))]


def mixes_lengths(model: nn.Module, prepared: Sequence[Prepared], pad_id: int | None) -> bool:
    """Whether inputs of different length may share a batch: the model's answer to one is the same padded as alone."""

    def answers(chosen: Sequence[Prepared]) -> list[Any]:
        return first_answer(model, collate(model, chosen, pad_id), len(chosen[0].positions))

    return takes_padding(model, prepared, pad_id, answers)


def content_positions(prepared: Prepared) -> list[int]:
    """The positions that are no special tokens."""
    return [one.index for one in prepared.positions if not one.special]
