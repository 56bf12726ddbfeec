"""A group of cases: named outcomes, each an array with the tolerance that it is compared by, or a word."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch

import attnx

Array: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

EXACT = 1e-12
"""Of what is computed in double precision."""
FLOW = 1e-9
"""Two exact algorithms for a maximum flow differ in the decimals beyond."""
SINGLE = 1e-6
"""Of models in single precision, and of answers, which attnx reads in single precision."""


@dataclass(frozen=True, eq=False)
class Numbers:
    """An array of any shape, NaN where something is undefined."""

    values: Array
    tolerance: float


Outcome: TypeAlias = Numbers | str
Outcomes: TypeAlias = Mapping[str, Outcome]


@dataclass(frozen=True, eq=False)
class Group:
    """Cases that are run together. `model` names the one that they run, whose own output is known without attnx."""

    name: str
    run: Callable[[], Outcomes]
    model: str | None = None
    slow: bool = False


def numbers(values: Any, tolerance: float = EXACT) -> Numbers:
    """Of a tensor, an array, or lists in which None is undefined."""
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu().numpy()
    return Numbers(np.array(values, dtype=np.float64), tolerance)


def outcome(call: Callable[[], Any], tolerance: float = EXACT) -> Outcome:
    """The numbers that a call gives, or the class of the error with which attnx refuses it."""
    try:
        return numbers(call(), tolerance)
    except attnx.AttnxError as error:
        return type(error).__name__


def summaries(cells: Iterable[Any], tolerance: float = SINGLE) -> Numbers:
    """Summaries as rows: mean, deviation, interval, counts."""
    rows = [[one.mean, one.deviation, one.low, one.high, one.count, one.undefined] for one in cells]
    return numbers(rows, tolerance)


def tolerance_of(method: str) -> float:
    return FLOW if method == "flow" else EXACT
