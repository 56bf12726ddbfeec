"""One input with what is asked of it; a reference takes many of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import nn

from attnx.answer.reading import predict
from attnx.answer.target import Target
from attnx.capturing.watch import unwrapped
from attnx.inputs.adapter import Prepared
from attnx.inputs.families import adapter_for
from attnx.running.answers import each_answer

Array = np.ndarray[Any, np.dtype[np.float64]]

_SHARED_POSITIONS = 2**15
"""Positions times cases that share a run: vectors of 4,096 numbers for each are half a gigabyte."""


@dataclass(frozen=True, eq=False)
class Case:
    """A prepared input, and the class or token whose score a reference explains."""

    prepared: Prepared
    target: Target

    @property
    def content(self) -> list[int]:
        """The positions that are no special tokens."""
        return self.prepared.positions.content

    @property
    def units(self) -> list[tuple[int, ...]]:
        """What is removed together: the parts that the caller named, or each position that is no special token."""
        return self.prepared.units


@dataclass(frozen=True, eq=False)
class Scored:
    """One score for each position of a case, and what else was learnt while measuring."""

    scores: Array
    facts: Mapping[str, float | str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """What the user should know before believing the scores."""
    signed: bool = False
    """Whether a score below 0 speaks against the target."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "scores", np.asarray(self.scores, dtype=np.float64))


def cases(
    model: nn.Module, processor: Any, prepared: Sequence[Prepared], *, target: Any = None, position: int | None = None
) -> list[Case]:
    """A case for each input: by default of what the model predicts, read at the position that its adapter explains."""
    model = unwrapped(model)
    adapter = adapter_for(model)

    def read(row: int, output: Any, place: int) -> Case:
        where = adapter.explained(model, processor, prepared[row]) if position is None else position
        prediction = predict(model, processor, output, place, where, target, prepared[row])
        return Case(prepared[row], Target.of(model, prediction, where))

    return each_answer(model, processor, prepared, read)


def by_input(cases: Sequence[Case]) -> tuple[list[int], list[list[int]]]:
    """The numbers of cases that have their input for themselves, and of those that share one.

    No more of these are together than fit in memory when each has numbers of its own for every position.
    """
    groups: dict[int, list[int]] = {}
    for number, case in enumerate(cases):
        groups.setdefault(id(case.prepared), []).append(number)
    shared = []
    for group in groups.values():
        size = max(2, _SHARED_POSITIONS // len(cases[group[0]].prepared.positions))
        shared += [group[start : start + size] for start in range(0, len(group), size)]
    return [one[0] for one in shared if len(one) == 1], [one for one in shared if len(one) > 1]
