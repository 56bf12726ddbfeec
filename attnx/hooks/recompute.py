"""Of a very long input what enters each block is kept, and not the queries and keys of its attention.

They are twice as large where each head has keys of its own. Where they are read, the block is called again and left as
soon as its attention has them: of a block that is its norm and its projections, less than a tenth of a run at 32,768
positions. That the same come out is tried on each block when it has run; where they do not, they are kept. So they are
where somebody's hooks hang on the block, for what follows its attention is not called again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from attnx.attention import ComputedLayer, LatestLayer, RecomputedLayer
from attnx.errors import CaptureError
from attnx.hooks.patching import ModuleObserver, Switches, looking_on
from attnx.hooks.record import Recorder, copied, total
from attnx.hooks.verification import TOLERANCE, rows_checked

KEPT_AT_MOST = 2**30
"""Bytes of queries and keys of all levels that are kept: those of 14,563 positions of 12 levels of 768 channels."""

_PLAIN = (Tensor, str, int, float, torch.dtype, torch.device, torch.Size, type(None))
"""What a block can be given twice."""

Still: TypeAlias = Callable[[], AbstractContextManager[Any]]
"""Gives a context in which the model is undisturbed."""


class Remaking(ModuleObserver):
    """While the model runs, queries and keys of a block that is left are let go of, if it can be called again."""

    def __init__(self, model: nn.Module, recorder: Recorder, still: Still) -> None:
        lists = [each for each in model.modules() if isinstance(each, nn.ModuleList)]
        index = getattr(getattr(model, "config", None), "num_hidden_layers", None)
        self._levels = max([index if isinstance(index, int) else 1, *map(len, lists)])
        self._recorder, self._still = recorder, still
        self._latest = LatestLayer()
        self._running: _Call | None = None
        self._trying = False
        super().__init__((block for each in lists for block in each), self._block_begins, self._block_ends)

    def _block_begins(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if self._running is not None or self._trying:
            return
        if any(map(_is_hooked, module.modules())):
            return
        given, layout = tree_flatten((args, dict(kwargs)), is_leaf=lambda one: not isinstance(one, (tuple, list, dict)))
        # A cache of keys and values would be filled twice, and what was made in inference mode tells of no change.
        if all(
            isinstance(tensor, _PLAIN) and not (isinstance(tensor, Tensor) and tensor.is_inference())
            for tensor in given
        ):
            self._running = _Call(module, given, layout, _versions(given), len(self._recorder.calls), self._still)

    def _block_ends(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any) -> None:
        call = self._running
        if call is None or module is not call.module or self._trying:
            return
        self._running = None
        records = self._recorder.calls[call.first :]
        if len(records) == 1 and len(records[0].computed) == 1:
            (level,) = records[0].computed
            if isinstance(level, ComputedLayer) and self._saves(level, call):
                records[0].computed = (self._anew(level, call) or level,)

    def _saves(self, level: ComputedLayer, call: _Call) -> bool:
        """Whether all levels together are too much to keep, and what enters them is less; masks are shared by them."""
        index, length = _size(level.query) + _size(level.key), level.mask.length
        states = [
            tensor
            for tensor in call.given
            if isinstance(tensor, Tensor) and length in tensor.shape[:2] and tensor.ndim <= 3
        ]
        return index * self._levels > KEPT_AT_MOST and max(map(_size, states), default=index) < index

    def _anew(self, level: ComputedLayer, call: _Call) -> RecomputedLayer | None:
        """The level as one that is made again; None where another one would be made."""
        some = rows_checked(level.mask.length)
        make = partial(_made, call, replace(level, query=level.query[:, some], key=level.key[:, some]), some)
        self._trying = True
        try:
            computed_layer = make()
        except Exception:  # whatever a block has against being called twice
            return None
        finally:
            self._trying = False
        same = torch.equal(computed_layer.query, level.query) and torch.equal(computed_layer.key, level.key)
        known = total(level.query, level.key)
        return RecomputedLayer(make, self._latest, level.heads, level.mask, known, level.module) if same else None


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
        modes = tuple(mode for mode in before.modes if not type(mode).__module__.startswith("attnx."))
        try:
            with self.still():
                replace(before, gradients=False, modes=modes).restore()  # none of ours looks on
                with looking_on(_Reaching()):
                    self.module(*args, **kwargs)
        except _ReachedError as reached:
            return reached.query, reached.key
        finally:
            before.restore()
        raise CaptureError(f"{type(self.module).__name__} had attention when it was called first, and then none")


def _made(call: _Call, sample: ComputedLayer, some: list[int]) -> ComputedLayer:
    """The level of which `some` rows are known, which must come out again."""
    query, key = (tensor[0] for tensor in call.again())
    key = key[:: len(key) // len(sample.key)]  # one of each group that shares it
    level = replace(sample, query=copied(query), key=copied(key))
    pairs = ((level.query[:, some], sample.query), (level.key[:, some], sample.key))
    slack = TOLERANCE.get(query.dtype, 1e-4)
    if _versions(call.given) != call.versions or not all(torch.allclose(*pair, slack, slack) for pair in pairs):
        raise CaptureError(
            f"{sample.module} gives other queries and keys when its block is called again: what entered it was changed "
            "meanwhile, or it is not deterministic; use attnx.capture(model, held=False, …), which keeps them"
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


def _is_hooked(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks) or hasattr(module, "_hf_hook")


def _versions(given: Sequence[Any]) -> list[int]:
    """What changes where a tensor is changed in place."""
    return [tensor._version for tensor in given if isinstance(tensor, Tensor)]


def _size(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
