"""Do models in half precision run on this processor? Tried in a child, for where they do not, the process dies.

Some virtual machines name AMX among the processor's abilities and do not run it. torch then picks instructions that end
the process in the middle of a model in bfloat16: "Illegal instruction". oneDNN, which picks them for torch, can be told
to leave AMX alone, by a variable that it reads once. This file needs the standard library only, as child.py does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

DTYPES = ("bfloat16", "float16")

LIMIT = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
"""The best instructions before AMX. On processors without them the variable changes nothing."""

PROGRAM = """
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


def try_half_precision(troubles: Troubles, program: str = PROGRAM) -> HalfPrecision:
    """One child where all is well; more only where something died."""
    found = troubles(program, DTYPES)
    return HalfPrecision(found, troubles(program, DTYPES, environment=LIMIT) if found else {})
