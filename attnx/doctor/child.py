"""Python in a process of its own: what it printed, and how it ended if not well.

An instruction that the processor does not run ends a whole process, and nothing can catch that. So whatever may end so
is tried in a child. This file needs the standard library only: the tests load it by its path, before torch.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

PATIENCE = 120.0
"""Seconds after which a child is given up. None needs ten; a machine with other work may need many times that."""


@dataclass(frozen=True)
class Ended:
    """What a child printed, a line each, and what went wrong; "" if nothing did."""

    lines: tuple[str, ...]
    trouble: str


ChildRun = Callable[..., Ended]
"""`run_child`, or a stand-in for it."""


def run_child(code: str, *arguments: str, environment: Mapping[str, str] | None = None) -> Ended:
    """Run the code with the modules that this process would import, and wait for its end."""
    modules = os.pathsep.join(path or os.getcwd() for path in sys.path)  # noqa: PTH109 - a string is wanted
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-X", "utf8", "-c", code, *arguments],
            env={**os.environ, "PYTHONPATH": modules, **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        return Ended((), f"no answer in {PATIENCE:.0f} s")
    except OSError as error:
        return Ended((), f"no process could be started: {error}")
    return Ended(tuple(done.stdout.splitlines()), _trouble(done.returncode, done.stderr))


def troubles(
    program: str, names: Sequence[str], *, environment: Mapping[str, str] | None = None, run: ChildRun = run_child
) -> dict[str, str]:
    """What went wrong with each name that did not go well.

    The program takes names and prints each that went well. Where it ends early, another child goes on behind that name.
    """
    found: dict[str, str] = {}
    left = list(names)
    while left:
        ended = run(program, *left, environment=environment)
        left = [name for name in left if name not in ended.lines]
        if left:
            found[left.pop(0)] = ended.trouble or "no answer"
    return found


def _trouble(code: int, errors: str) -> str:
    """The signal that killed it, or the last line of its traceback."""
    if code == 0:
        return ""
    if code < 0:
        known = {one.value: one.name for one in signal.Signals}
        return f"killed by {known.get(-code, f'signal {-code}')}"
    return (errors.strip().splitlines() or [f"exit code {code}"])[-1]
