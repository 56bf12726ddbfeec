"""Sets of nodes as bits in words of 64, and how the search is compiled.

The search works on bare memory, as C would. Its machine code then needs nothing of Python or numba, and `machine_code`
can keep it on disk. The axes of each block of memory stand beside its name in `kernel.solve`; `rows[row · n + node]`
reads rows[row, node].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

Pointer = Any
Function = TypeVar("Function", bound=Callable[..., Any])

NONE = np.uint64(0)
ONE = np.uint64(1)


def inner(function: Function) -> Function:
    """A part of the search. It is never called from Python, and all parts become one function of machine code."""
    options = {"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "error_model": "numpy"}
    part: Function = njit(**options)(function)
    return part


@inner
def bit(node: int) -> Any:
    """The set of one node, within its word."""
    return ONE << np.uint64(node & 63)


def _lowest(typing: Any, word: Any) -> Any:
    def count_trailing_zeros(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], context.get_constant(types.boolean, 0))

    return types.int64(types.uint64), count_trailing_zeros


lowest: Any = intrinsic(_lowest)
"""The lowest node of a word that is not empty: one machine instruction, which numba does not offer by itself."""


@inner
def first(found: Pointer, these: int, words: int) -> int:
    """The lowest node of a set, −1 if it is empty."""
    for word in range(words):
        if found[these + word] != NONE:
            node: int = (word << 6) + lowest(found[these + word])
            return node
    return -1


@inner
def least(one: float, other: float) -> float:
    return one if one < other else other
