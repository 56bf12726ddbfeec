"""What a model may raise that is run in another way than its own: one rule for all that nobody insists on.

Things are tried together. If that fails, each half is tried by itself, and so on: one is to blame, and the others are
not. Memory that is used up, and a user who interrupts, are nobody's fault and end the call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from attnx.errors import in_a_line

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Refused:
    """Why there is nothing, in a line."""

    reason: str


def attempt(things: Sequence[T], run: Callable[[Sequence[T]], Sequence[R]]) -> list[R | Refused]:
    """What `run` gives for each of the things, or why it gives nothing."""
    if not things:
        return []
    try:
        return list(run(things))
    except MemoryError:
        raise
    except Exception as error:
        if len(things) == 1:
            return [Refused(in_a_line(error))]
    half = len(things) // 2
    return [*attempt(things[:half], run), *attempt(things[half:], run)]
