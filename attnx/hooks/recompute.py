"""Blocks that are called again: for the tail of a block as a function, and to recompute queries and keys.

The tail of a block is what it makes of the residual stream after its attention. The block is called with the same
arguments, and one of its calls to torch gives the sum of stream and attention. There other vectors are put in its
place, and the block's own code runs on them; what comes before is replaced by empty tensors. So the block must go on
from the sum alone, and treat all positions alike. Both are checked: the sum itself, with its positions permuted, must
give what the block gave. Where the MLP stands beside attention, or nothing follows, the block is a sum, and no call is
needed.

Recomputation: of a very long input the input of each block is kept, and not the queries and keys of its attention,
which are twice as large where each head has keys of its own. Where they are read, the block is called again and left as
soon as its attention has them: less than a tenth of a run at 32,768 positions. That the same come out is checked on
each block when it has run; where they do not, or where somebody's hooks hang on the block, they are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from attnx._signals import cached_property
from attnx.attention import ComputedLayer, LatestLayer, RecomputedLayer
from attnx.errors import CaptureError, out_of_memory
from attnx.hooks.blocks import floating_tensors, miss
from attnx.hooks.patching import (
    ModuleObserver,
    Switches,
    active_mode,
    eval_mode,
    grad_mode,
    is_of_attnx,
    layer_count,
    listed_modules,
)
from attnx.hooks.record import BlockCall, Recorder, ResidualAdd, copied, total
from attnx.hooks.tracing import Function, TracingMode
from attnx.hooks.verification import TOLERANCE, rows_checked


@dataclass(frozen=True, eq=False)
class BlockTailRun:
    """The tail of one block of a batch."""

    model: nn.Module
    name: str
    """Of the module that attends."""
    residual: ResidualAdd
    call: BlockCall

    def of_input(self, index: int, kept: Tensor | None) -> Callable[[Tensor, Tensor], Tensor]:
        """(vector × width, vector) → vector × width for one input, without its padding: the block's output at these
        positions when each vector is subtracted from what attention adds there."""
        length = self.residual.states.shape[1]

        def without(vectors: Tensor, positions: Tensor) -> Tensor:
            rows = positions if kept is None else kept.to(positions.device)[positions]
            with grad_mode(gradients=False):
                return self._without(vectors.to(self._output), rows + index * length)

        return without

    def _without(self, vectors: Tensor, rows: Tensor) -> Tensor:
        total, tail = self._total_and_tail
        norm, branch = self.residual.branch_norm, self.residual.branch
        if norm is not None:
            with eval_mode(self.model):
                branch_output = norm.module(_flat(norm.input)[rows] - vectors)
            states = _flat(self.residual.states)[rows] + branch_output
            return self._output[rows] + states - self._sum[rows] if tail is None else tail(states)
        subtracted = vectors if branch is None else branch.gain.to(vectors) * vectors
        return self._output[rows] - subtracted if total is None or tail is None else tail(total[rows] - subtracted)

    @property
    def tolerance(self) -> float:
        return TOLERANCE.get(self.call.precision, 1e-4)

    @cached_property
    def _output(self) -> Tensor:
        assert self.call.output is not None
        return _flat(self.call.output)

    @cached_property
    def _sum(self) -> Tensor:
        """position × width: stream and attention where the block is a sum."""
        norm, branch = self.residual.branch_norm, self.residual.branch
        assert norm is not None
        assert branch is not None
        return _flat(self.residual.states + branch(norm.input.reshape(self.residual.states.shape)))

    @cached_property
    def _total_and_tail(self) -> tuple[Tensor | None, Callable[[Tensor], Tensor] | None]:
        """The sum as the block made it, if it did, and the function from it to the output; None where that adds."""
        search = _FindSum(self.residual.observed, self.residual.rows, self.call.input.shape, self.tolerance)
        self.run(search)
        if search.total is None:
            return None, None
        total = _flat(search.total)
        for size in (None, len(total)):
            tail = _Tail(self, search.before, search.total.shape, size)
            if tail.gives(total, self._output):
                return total, tail
        shifted = total + torch.linspace(-1, 1, total.shape[-1], dtype=total.dtype, device=total.device)
        output = self.run(_ReplaceSum(len(search.before), shifted.reshape(search.total.shape)))
        if _close(_flat(output), self._output + shifted - total, self.tolerance):
            return None, None
        raise CaptureError(
            f"the rest of the block around {self.name} cannot be run by itself: it reads more than the sum behind "
            "attention, or mixes positions. value_zeroing needs that; use alti, or methods=['lrp']"
        )

    def run(self, mode: TracingMode) -> Tensor:
        """The block's output while the mode answers some of its calls to torch."""
        with eval_mode(self.model), active_mode(mode):
            output = self.call.module(*self.call.args, **self.call.kwargs)
        return next(floating_tensors(output))


@dataclass(frozen=True, eq=False)
class _Tail:
    """vector × width → vector × width."""

    block: BlockTailRun
    before: Sequence[Any]
    """The results of the calls before the sum, emptied."""
    shape: torch.Size
    """As the block made the sum."""
    size: int | None
    """How many vectors a call takes; None for any number."""

    def __call__(self, states: Tensor) -> Tensor:
        if self.size is None:
            return self._run(states.reshape(*[1] * (len(self.shape) - 2), *states.shape))
        outputs = []
        for part in torch.split(states, self.size):
            filled = torch.cat([part, part[-1:].expand(self.size - len(part), -1)])
            outputs.append(self._run(filled.reshape(self.shape))[: len(part)])
        return torch.cat(outputs)

    def _run(self, states: Tensor) -> Tensor:
        return _flat(self.block.run(_ReplaceSum(len(self.before), states, self.before)))

    def gives(self, total: Tensor, output: Tensor) -> bool:
        """Whether vectors in another order, and one of them twice, give what the block gave for each."""
        order = torch.arange(-1, len(total), device=total.device).roll(1) % len(total)
        try:
            return _close(self(total[order]), output[order], self.block.tolerance)
        except (RuntimeError, ValueError, IndexError, TypeError) as error:  # shapes that were fixed before the sum
            if out_of_memory(error):
                raise
            return False


class _FindSum(TracingMode):
    """Looks for the call that makes the sum, and keeps the shapes of what was computed before it."""

    def __init__(self, observed: Tensor, rows: Any, shape: torch.Size, tolerance: float) -> None:
        super().__init__()
        self._observed, self._rows, self._shape, self._tolerance = observed, rows, shape, tolerance
        self.before: list[Any] = []
        self.total: Tensor | None = None

    def call(self, func: Function, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        if self.total is None:
            if self._is_sum(result):
                self.total = result.detach().clone()
            else:
                self.before.append(_emptied(result))
        return result

    def _is_sum(self, result: Any) -> bool:
        if not isinstance(result, Tensor) or not result.is_floating_point() or result.ndim < 2:
            return False
        if result.numel() != self._shape.numel() or result.shape[-1] != self._shape[-1]:
            return False
        rows = result.detach().reshape(self._shape)[:, self._rows].to(self._observed)
        return miss(rows, self._observed) <= self._tolerance


class _ReplaceSum(TracingMode):
    """Gives another sum. With `before` nothing before it is computed: shapes and numbers are as they were."""

    def __init__(self, index: int, states: Tensor, before: Sequence[Any] | None = None) -> None:
        super().__init__()
        self._index, self._states, self._before, self._calls = index, states, before, 0

    def call(self, func: Function, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        index, self._calls = self._calls, self._calls + 1
        if index == self._index:
            return self._states
        if index < self._index and self._before is not None:
            return _filled(self._before[index])
        return func(*args, **kwargs)


@dataclass(frozen=True)
class _Empty:
    """A tensor of which only its kind is kept."""

    shape: torch.Size
    dtype: torch.dtype
    device: torch.device


def _emptied(result: Any) -> Any:
    if isinstance(result, Tensor):
        return _Empty(result.shape, result.dtype, result.device)
    return type(result)(map(_emptied, result)) if type(result) in (tuple, list) else result


def _filled(kept: Any) -> Any:
    if isinstance(kept, _Empty):
        return torch.zeros((), dtype=kept.dtype, device=kept.device).expand(kept.shape)
    return type(kept)(map(_filled, kept)) if type(kept) in (tuple, list) else kept


def _flat(tensor: Tensor) -> Tensor:
    return tensor.reshape(-1, tensor.shape[-1])


def _close(tensor: Tensor, other: Tensor, tolerance: float) -> bool:
    return tensor.shape == other.shape and miss(tensor, other) <= tolerance


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
