"""Where a tensor comes from: the attention calls whose output it was computed from.

A level of a stack reads what the level before it wrote. That cannot be told by names: one module called three times is
three layers of ALBERT, or three texts that have nothing to do with each other. So every call of torch's functions hands
on, from its operands to its result, a number whose bits are the attention calls before it. It is conservative in one
direction: a road that torch's functions do not see (numpy, a kernel of one's own) is no road.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor


class Descent:
    """The calls that each living tensor descends from, as bits: 1 << number of the call."""

    def __init__(self) -> None:
        self._calls: dict[int, tuple[weakref.ref[Tensor], int]] = {}

    def of(self, *things: Any) -> int:
        """The calls before these tensors, also where they stand in lists."""
        calls = 0
        for thing in things:
            if isinstance(thing, Tensor):
                reference, known = self._calls.get(id(thing), (None, 0))
                calls |= known if reference is not None and reference() is thing else 0
            elif isinstance(thing, (tuple, list)) and not isinstance(thing, torch.Size):
                calls |= self.of(*thing)
            elif isinstance(thing, dict):
                calls |= self.of(*thing.values())
        return calls

    def mark(self, thing: Any, calls: int) -> None:
        """That this tensor, or each of a list, descends from these calls and no others."""
        if isinstance(thing, Tensor):
            key = id(thing)
            if calls or key in self._calls:
                # No Python in the callback: a Ctrl-C that came inside it would be printed and lost.
                self._calls[key] = (weakref.ref(thing, partial(self._calls.pop, key)), calls)
        elif isinstance(thing, (tuple, list)) and not isinstance(thing, torch.Size):
            for one in thing:
                self.mark(one, calls)

    def hand_on(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> None:
        """From the operands of a function to what it made, and to what it wrote into."""
        if not self._calls or isinstance(result, (int, torch.Size, torch.dtype, torch.device)):
            return  # most of all calls: nothing attended yet, or a shape was asked for
        calls = self.of(*args, *kwargs.values()) if kwargs else self.of(*args)
        self.mark(result, calls)
        written = name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))
        if written and args and isinstance(args[0], Tensor):
            self.mark(args[0], calls)
            if args[0]._base is not None:
                self.mark(args[0]._base, calls | self.of(args[0]._base))

    def forget(self) -> None:
        self._calls.clear()
