"""Of a very long input what enters each block is kept, and not the queries and keys of its attention.

They are twice as large where each head has keys of its own. Where they are read, the block is called again and left as
soon as its attention has them: of a block that is its norm and two projections, a twentieth of a run at 32,768
positions. That the same come out is tried on the first block of each run, to the bit; else they are kept.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from attnx.attention.anew import Anew, Latest
from attnx.attention.computed import Computed
from attnx.capturing.proof import rows_checked
from attnx.capturing.record import Record, Recorder
from attnx.capturing.untouched import Hooked, Switches, looking_on
from attnx.errors import CaptureError

KEPT_AT_MOST = 2**30
"""Bytes of queries and keys of all levels that are kept: those of 14,563 positions of 12 levels of 768 channels."""

_PLAIN = (Tensor, str, int, float, torch.dtype, torch.device, torch.Size, type(None))
"""What a block can be given twice."""

Still: TypeAlias = Callable[[], AbstractContextManager[Any]]
"""Gives a context in which the model is undisturbed."""


class Remaking(Hooked):
    """While the model runs, queries and keys of a block that is left are let go of, if it can be called again."""

    def __init__(self, model: nn.Module, recorder: Recorder, still: Still) -> None:
        lists = [each for each in model.modules() if isinstance(each, nn.ModuleList)]
        self._recorder, self._still = recorder, still
        self._levels = max(map(len, lists), default=0)
        self._latest = Latest()
        self._tried: bool | None = None
        self._running: _Call | None = None
        self._thread = threading.get_ident()
        blocks = {id(one): one for each in lists for one in each}
        super().__init__(blocks.values(), self._block_begins, self._block_ends)

    def _block_begins(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if self._running is not None or self._tried is False or threading.get_ident() != self._thread:
            return
        given, layout = tree_flatten((args, dict(kwargs)), is_leaf=lambda one: not isinstance(one, (tuple, list, dict)))
        if all(isinstance(one, _PLAIN) for one in given):  # a cache of keys and values would be filled twice
            self._running = _Call(module, given, layout, _versions(given), len(self._recorder.calls), self._still)

    def _block_ends(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any) -> None:
        call = self._running
        if call is None or module is not call.module or threading.get_ident() != self._thread:
            return
        self._running = None
        records = self._recorder.calls[call.first :]
        if len(records) == 1 and self._saves(records[0], call) and _versions(call.given) == call.versions:
            self._let_go(records[0], call)

    def _saves(self, record: Record, call: _Call) -> bool:
        """Whether all levels together are too much to keep, and what enters them is less."""
        if len(record.computed) != 1 or not isinstance(record.computed[0], Computed):
            return False
        own = _size(record.computed[0].query) + _size(record.computed[0].key)
        entered = max((_size(one) for one in call.given if isinstance(one, Tensor)), default=own)  # others are shared
        return own * self._levels > KEPT_AT_MOST and entered < own

    def _let_go(self, record: Record, call: _Call) -> None:
        (level,) = record.computed
        assert isinstance(level, Computed)
        if not bool((level.query.sum() + level.key.sum()).isfinite()):
            return  # which is told with its layer when all are in
        some = rows_checked(level.own.stop)
        make = partial(_made, call, replace(level, query=level.query[:, some], key=level.key[:, some]), some)
        if self._tried is None:
            self._tried = self._gives_again(make, level, call)
        if self._tried:
            record.computed = (Anew(make, self._latest, level.heads, level.mask, level.module),)

    def _gives_again(self, make: Callable[[], Computed], level: Computed, call: _Call) -> bool:
        self._running = call  # which is called again, and left in the middle
        try:
            found = make()
        except CaptureError:
            return False
        finally:
            self._running = None
        return torch.equal(found.query, level.query) and torch.equal(found.key, level.key)


@dataclass(eq=False)
class _Call:
    """One call of a block, with all that is needed to make it again."""

    module: nn.Module
    given: Sequence[Any]
    """Its arguments in a row."""
    layout: TreeSpec
    versions: list[int]
    first: int
    """How many attention calls were before it."""
    still: Still

    def again(self) -> tuple[Tensor, Tensor]:
        """The queries and keys of its attention, batch × head × n × width."""
        args, kwargs = tree_unflatten(list(self.given), self.layout)
        before = Switches.now()
        try:
            with self.still():
                replace(before, gradients=False, modes=()).restore()  # nobody else looks on
                with looking_on(_Reaching()):
                    self.module(*args, **kwargs)
        except _ReachedError as reached:
            return reached.query, reached.key
        finally:
            before.restore()
        raise AssertionError("a block had attention when it was called first, and has none")


def _made(call: _Call, sample: Computed, some: list[int]) -> Computed:
    """The level of which `some` rows are known, which must come out again."""
    query, key = (one[0] for one in call.again())
    level = replace(sample, query=query, key=key[:: len(key) // len(sample.key)])  # one of each group that shares it
    if not (torch.equal(level.query[:, some], sample.query) and torch.equal(level.key[:, some], sample.key)):
        raise CaptureError(
            f"{sample.module} gave other queries and keys when its block was called again: what entered the block was "
            "changed after it; use attnx.capture(model, held=False, …), which keeps them"
        )
    return level


class _ReachedError(Exception):
    """The block is left: what was asked for is there."""

    def __init__(self, query: Tensor, key: Tensor) -> None:
        super().__init__()
        self.query, self.key = query, key


class _Reaching(TorchFunctionMode):
    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if getattr(func, "__name__", "") == "scaled_dot_product_attention":
            given = {**dict(zip(("query", "key"), args, strict=False)), **(kwargs or {})}
            raise _ReachedError(given["query"].detach(), given["key"].detach())
        return func(*args, **(kwargs or {}))


def _versions(given: Sequence[Any]) -> list[int]:
    """What changes where a tensor is changed in place."""
    return [one._version for one in given if isinstance(one, Tensor) and not one.is_inference()]


def _size(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
