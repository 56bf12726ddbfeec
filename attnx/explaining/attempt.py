"""What a model may raise that is run in another way than its own: one rule for all that nobody insists on.

Things are tried together. If that fails, each half is tried by itself, and so on: one is to blame, and the others are
not. Memory that is used up is nobody's fault: it ends the call where one thing alone is too much, unless the caller can
postpone it. A user who interrupts ends the call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from attnx.errors import in_a_line, out_of_memory

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Refused:
    """Why there is nothing, in a line."""

    reason: str


@dataclass(frozen=True)
class Postponed(Refused):
    """Memory was short, also for this one alone: it can be run later."""


def attempt(
    things: Sequence[T], run: Callable[[Sequence[T]], Sequence[R]], *, postpone: bool = False
) -> list[R | Refused]:
    """What `run` gives for each of the things, or why it gives nothing.

    With `postpone`, what has not enough memory alone is `Postponed`; without, that error is raised.
    """
    if not things:
        return []
    try:
        return list(run(things))
    except Exception as error:
        if len(things) == 1:
            if not out_of_memory(error):
                return [Refused(in_a_line(error))]
            if not postpone:
                raise
            return [Postponed(in_a_line(error))]
    half = len(things) // 2
    return [*attempt(things[:half], run, postpone=postpone), *attempt(things[half:], run, postpone=postpone)]
