"""Do models in half precision run on this processor? Tried in a child, for where they do not, the process dies.

Some virtual machines name AMX among the processor's abilities and do not run it. torch then picks instructions that end
the process in the middle of a model in bfloat16: "Illegal instruction". oneDNN, which picks them for torch, can be told
to leave AMX alone, by a variable that it reads once. This file needs the standard library only, as child.py does.
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
    result: dict[str, str] = {}
    left = list(names)
    while left:
        ended = run(program, *left, environment=environment)
        left = [name for name in left if name not in ended.lines]
        if left:
            result[left.pop(0)] = ended.trouble or "no answer"
    return result


def _trouble(code: int, errors: str) -> str:
    """The signal that killed it, or the last line of its traceback."""
    if code == 0:
        return ""
    if code < 0:
        known = {Signal.value: Signal.name for Signal in signal.Signals}
        return f"killed by {known.get(-code, f'signal {-code}')}"
    return (errors.strip().splitlines() or [f"exit code {code}"])[-1]


DTYPES = ("bfloat16", "float16")

LIMIT = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
"""The best instructions before AMX. On processors without them the variable changes nothing."""

HALF_PRECISION_PROGRAM = """
import sys
import torch

for name in sys.argv[1:]:
    dtype = getattr(torch, name)
    for width in (32, 256):
        layer = torch.nn.Linear(width, width, bias=False, dtype=dtype)
        for batch, length in ((1, 9), (2, 64)):
            states = torch.ones(batch, length, width, dtype=dtype)
            with torch.no_grad():
                layer(states)
            layer(states).sum().backward()
    print(name, flush=True)
"""
"""What dies: a Linear without bias on batch × n × width, with and without gradient. On n × width it may well run."""

Troubles = Callable[..., dict[str, str]]
"""`child.troubles`, which is handed in: files that are loaded by their paths cannot import each other."""


@dataclass(frozen=True)
class HalfPrecision:
    """What went wrong with each dtype that does not run, as the machine is and under `LIMIT`."""

    troubles: dict[str, str]
    limited: dict[str, str]


def try_half_precision(troubles: Troubles, program: str = HALF_PRECISION_PROGRAM) -> HalfPrecision:
    """One child where all is well; more only where something died."""
    found = troubles(program, DTYPES)
    return HalfPrecision(found, troubles(program, DTYPES, environment=LIMIT) if found else {})
