"""Recomputation: of a very long input the input of each block is kept, and not the queries and keys of its attention.

They are twice as large where each head has keys of its own. Where they are read, the block is called again and left as
soon as its attention has them: less than a tenth of a run at 32,768 positions. That the same come out is checked on
each block when it has run; where they do not, or where somebody's hooks hang on the block, they are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from attnx.attention import ComputedLayer, LatestLayer, RecomputedLayer
from attnx.errors import CaptureError
from attnx.hooks.patching import (
    ModuleObserver,
    Switches,
    active_mode,
    eval_mode,
    is_of_attnx,
    layer_count,
    listed_modules,
)
from attnx.hooks.record import Recorder, copied, total
from attnx.hooks.tracing import Function, TracingMode
from attnx.hooks.verification import TOLERANCE, rows_checked

KEPT_AT_MOST = 2**30
"""Bytes of queries and keys of all layers that are kept: those of 14,563 positions of 12 layers of 768 channels."""

_REPEATABLE = (Tensor, str, int, float, complex, torch.dtype, torch.device, torch.Size, type(None))


def flat_arguments(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[list[Any], TreeSpec]:
    """The arguments of a call in one list, for `tree_unflatten`."""
    return tree_flatten((args, dict(kwargs)), is_leaf=lambda node: not isinstance(node, (tuple, list, dict)))


def unrepeatable(arguments: Sequence[Any]) -> Any:
    """An argument that a block cannot be given twice, such as a cache of keys and values; None if there is none."""
    return next((argument for argument in arguments if not isinstance(argument, _REPEATABLE)), None)


def versions(arguments: Sequence[Any]) -> list[int]:
    """What changes where a tensor is changed in place."""
    return [argument._version for argument in arguments if isinstance(argument, Tensor)]


class RecomputationObserver(ModuleObserver):
    """While the model runs, release queries and keys of a block that is done, if it can be called again."""

    def __init__(self, model: nn.Module, recorder: Recorder) -> None:
        self._model, self._recorder, self._layers = model, recorder, layer_count(model)
        self._latest = LatestLayer()
        self._running: _Call | None = None
        self._trying = False
        super().__init__(listed_modules(model).values(), self._before, self._after)

    def _before(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if self._running is not None or self._trying or any(map(_is_hooked, module.modules())):
            return
        arguments, layout = flat_arguments(args, kwargs)
        # What was made in inference mode has no version, and would not show a change.
        inference = any(isinstance(argument, Tensor) and argument.is_inference() for argument in arguments)
        if unrepeatable(arguments) is None and not inference:
            count = len(self._recorder.calls)
            self._running = _Call(self._model, module, arguments, layout, versions(arguments), count)

    def _after(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any) -> None:
        call = self._running
        if call is None or module is not call.module or self._trying:
            return
        self._running = None
        records = self._recorder.calls[call.first :]
        if len(records) == 1 and len(records[0].computed) == 1:
            (layer,) = records[0].computed
            if isinstance(layer, ComputedLayer) and self._saves_memory(layer, call):
                records[0].computed = (self._recomputed(layer, call) or layer,)

    def _saves_memory(self, layer: ComputedLayer, call: _Call) -> bool:
        """Whether all layers are too much to keep, and what enters them is less; masks are shared by them."""
        size, length = _bytes(layer.query) + _bytes(layer.key), layer.mask.length
        states = [
            _bytes(argument)
            for argument in call.arguments
            if isinstance(argument, Tensor) and length in argument.shape[:2] and argument.ndim <= 3
        ]
        return size * self._layers > KEPT_AT_MOST and max(states, default=size) < size

    def _recomputed(self, layer: ComputedLayer, call: _Call) -> RecomputedLayer | None:
        """The layer as one that is recomputed; None where another one would come out."""
        rows = rows_checked(layer.mask.length)
        compute = partial(_compute, call, replace(layer, query=layer.query[:, rows], key=layer.key[:, rows]), rows)
        self._trying = True
        try:
            again = compute()
        except Exception:  # whatever a block has against being called twice
            return None
        finally:
            self._trying = False
        if not torch.equal(again.query, layer.query) or not torch.equal(again.key, layer.key):
            return None
        sums = total(layer.query, layer.key)
        return RecomputedLayer(compute, self._latest, layer.heads, layer.mask, sums, module=layer.module)


@dataclass(eq=False)
class _Call:
    """One call of a block, with all that is needed to repeat it."""

    model: nn.Module
    module: nn.Module
    arguments: Sequence[Any]
    layout: TreeSpec
    versions: list[int]
    first: int
    """How many attention calls were before it."""

    def repeat(self) -> tuple[Tensor, Tensor]:
        """The queries and keys of its attention, batch × head × n × width."""
        args, kwargs = tree_unflatten(list(self.arguments), self.layout)
        before = Switches.now()
        modes = tuple(mode for mode in before.modes if not is_of_attnx(mode))
        try:
            with eval_mode(self.model):
                replace(before, gradients=False, modes=modes).restore()
                with active_mode(_StopAtAttention()):
                    self.module(*args, **kwargs)
        except _AttentionReached as reached:
            return reached.query, reached.key
        finally:
            before.restore()
        raise CaptureError(f"{type(self.module).__name__} had attention when it was called first, and then none")


def _compute(call: _Call, sample: ComputedLayer, rows: list[int]) -> ComputedLayer:
    """The layer of which some `rows` are known, which must come out again."""
    query, key = (tensor[0] for tensor in call.repeat())
    key = key[:: len(key) // len(sample.key)]  # one of each group that shares it
    layer = replace(sample, query=copied(query), key=copied(key))
    pairs = ((layer.query[:, rows], sample.query), (layer.key[:, rows], sample.key))
    slack = TOLERANCE.get(query.dtype, 1e-4)
    if versions(call.arguments) != call.versions or not all(torch.allclose(*pair, slack, slack) for pair in pairs):
        raise CaptureError(
            f"{sample.module} gives other queries and keys when its block is called again: what entered it was changed "
            "meanwhile, or it is not deterministic; use attnx.capture(model, held=False, …), which keeps them"
        )
    return layer


class _AttentionReached(Exception):  # noqa: N818 - no error
    def __init__(self, query: Tensor, key: Tensor) -> None:
        super().__init__()
        self.query, self.key = query, key


class _StopAtAttention(TracingMode):
    def call(self, func: Function, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if name == "scaled_dot_product_attention":
            operands = {**dict(zip(("query", "key"), args, strict=False)), **kwargs}
            raise _AttentionReached(operands["query"].detach(), operands["key"].detach())
        return func(*args, **kwargs)


def _is_hooked(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks) or hasattr(module, "_hf_hook")


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
