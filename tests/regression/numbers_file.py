"""Outcomes in a small file. Of an array stand there its shape, and two sums of all its numbers.

In a sum each number has a weight of its own, between ½ and 1½ with either sign: where one of them changes, both sums
do, and changes of several that cancel in both do not happen by chance.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.regression.group import SINGLE, Array, Numbers, Outcome, Outcomes

PATH = Path(__file__).parent / "numbers.npz"
SUMS = 2
UNDEFINED = 1234.5
"""What NaN counts for, so that a number that becomes undefined is seen."""


@dataclass(frozen=True, eq=False)
class Print:
    """What the file knows of an array."""

    shape: tuple[int, ...]
    sums: Array

    @classmethod
    def of(cls, values: Array) -> Print:
        flat = _defined(values).ravel()
        return cls(values.shape, _weights(flat.size) @ flat)

    def distance(self, values: Array) -> float:
        """How far the sums of such an array lie apart from these, in units of its largest number if that is above 1."""
        largest = float(np.abs(_defined(values)).max(initial=1.0))
        return float(np.abs(self.sums - Print.of(values).sums).max()) / largest


Stored = Mapping[str, Print | str]


def write(groups: Mapping[str, Outcomes | Stored], path: Path = PATH) -> None:
    """The sums of all cases in one matrix, and one text with their names, shapes and words."""
    facts: dict[str, Any] = {}
    sums: list[Array] = []
    for group, outcomes in groups.items():
        prints = {name: _print(one) for name, one in outcomes.items() if not isinstance(one, str)}
        words = {name: one for name, one in outcomes.items() if isinstance(one, str)}
        facts[group] = {"shapes": {name: one.shape for name, one in prints.items()}, "words": words}
        sums += [one.sums for one in prints.values()]
    text = np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8)
    np.savez_compressed(path, sums=np.array(sums), facts=text)


def read(path: Path = PATH) -> dict[str, Stored]:
    """What `write` wrote."""
    with np.load(path, allow_pickle=False) as file:
        sums, facts = iter(file["sums"]), json.loads(file["facts"].tobytes())
    return {
        group: {name: Print(tuple(shape), next(sums)) for name, shape in one["shapes"].items()} | one["words"]
        for group, one in facts.items()
    }


def differences(found: Outcomes, stored: Stored, drift: float = 0.0) -> list[str]:
    """A line for each case that is missing, new, or not what it was; `drift` is allowed in any case."""
    lines = [f"{name}: not computed any more" for name in stored if name not in found]
    for name, outcome in found.items():
        before = stored.get(name)
        line = "not in the file" if before is None else _difference(outcome, before, drift)
        lines += [f"{name}: {line}"] if line else []
    return lines


def _print(outcome: Numbers | Print) -> Print:
    return outcome if isinstance(outcome, Print) else Print.of(outcome.values)


def _difference(outcome: Outcome, before: Print | str, drift: float) -> str | None:
    if isinstance(outcome, str) or isinstance(before, str):
        known = before if isinstance(before, str) else f"numbers of shape {before.shape}"
        now = outcome if isinstance(outcome, str) else f"numbers of shape {outcome.values.shape}"
        return None if known == now else f"was {known}, is {now}"
    if outcome.values.shape != before.shape:
        return f"was of shape {before.shape}, is {outcome.values.shape}"
    # Rounding of single numbers adds up in a sum of many; that of double ones stays far below its tolerance.
    spread = np.sqrt(max(1, outcome.values.size)) if outcome.tolerance >= SINGLE else 1.0
    allowed = max(outcome.tolerance, drift) * spread
    distance = before.distance(outcome.values)
    return None if distance <= allowed else f"differs by {distance:.2g}, {allowed:.2g} allowed"


def _defined(values: Array) -> Array:
    return np.nan_to_num(values, nan=UNDEFINED)


@cache
def _weights(size: int) -> Array:
    random = np.random.RandomState(size % 2**32)
    return random.uniform(0.5, 1.5, (SUMS, size)) * random.choice([-1.0, 1.0], (SUMS, size))
