"""Whether a model computes here what it computed where the file was written, attnx aside.

Another processor rounds otherwise: nothing that matters in double precision, but some models have single precision
inside. What the model itself is off by, without attnx, is allowed to attnx too.
"""

from __future__ import annotations

from functools import cache

from tests.regression.cases import GROUPS
from tests.regression.group import Outcome, numbers
from tests.regression.models import plain
from tests.regression.numbers_file import Print, Stored

PLAIN = "plain"
SLACK = 100
"""Attention and what is made of it may lie so many times further apart than the outputs."""
ROUNDING = 1e-4
"""Outputs that lie further apart are those of another model."""


def models() -> list[str]:
    """The models that cases run, each once."""
    return list(dict.fromkeys(group.model for group in GROUPS.values() if group.model is not None))


def plain_outputs() -> dict[str, Outcome]:
    return {name: numbers(plain(name)) for name in models()}


def drift(name: str | None, stored: Stored) -> float:
    """What is allowed to cases that run this model; 0 where its output is the same to the last digits."""
    return 0.0 if name is None else SLACK * apart(name, stored[name])


@cache
def apart(name: str, before: Print) -> float:
    """How far the model's own output lies from the one in the file."""
    return before.distance(numbers(plain(name)).values)
