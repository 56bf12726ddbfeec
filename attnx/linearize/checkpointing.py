"""Gradient checkpointing block by block: of a long input what enters each block is kept, and the block is run again.

A block is an element of the model's lists of modules, the outermost of them. In forward it runs without a graph, and
its output stands in the graph as one function of its inputs. In backward it is run again under the same mode, so that
its gradients are the linearized ones, and its graph is released. So what backward needs is kept of one block at a time.
What comes out a second time must be what came out first, and what is a constant of the input where all is kept must be
one here: which results are is tried on the first block of a class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from attnx.errors import CaptureError
from attnx.hooks import (
    ModuleObserver,
    Switches,
    TemporaryPatch,
    Unobserved,
    flat_arguments,
    layer_count,
    listed_modules,
    unrepeatable,
    versions,
)
from attnx.linearize.autograd import LinearizedFunction
from attnx.linearize.mode import Kernel, LinearizeMode

STATES_KEPT = 14
"""About as many tensors of the size of its states does backward through a block need."""

KEPT_AT_MOST = 2**30
"""Bytes that may be kept for backward: those of 2,080 positions of 12 blocks of 768 channels."""

KEPT = "so all that backward needs was kept in memory"

_TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}


class NotRepeatableError(CaptureError):
    """A block cannot be run again: the whole graph has to be kept."""


class Checkpointing(ModuleObserver):
    """Run blocks again in backward, in this thread, where there is more to keep than allowed.

    `every` True checkpoints every block, False none. With `layers` the input of each block is requested, so that none
    may be inside another. For `repeated` backward passes a block is run again each time.
    """

    def __init__(
        self, model: nn.Module, mode: LinearizeMode, every: bool | None, *, layers: bool, repeated: bool
    ) -> None:
        self.calls = 0
        """Blocks that are run again."""
        self._mode, self._active, self._layers, self._repeated = mode, every, layers, repeated
        self._layer_count = layer_count(model)
        self._running: _Call | None = None
        self._dependent: dict[tuple[type, tuple[int, ...]], list[int]] = {}
        """For blocks of a class with tensors at these indices of their results: those that depend on the input."""
        super().__init__([] if every is False else listed_modules(model).values(), self._before, self._after)

    def _before(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if self._running is not None or self._mode.repeating:
            return None
        arguments, layout = flat_arguments(args, kwargs)
        moving = [index for index, x in enumerate(arguments) if isinstance(x, Tensor) and x.requires_grad]
        if not moving or not torch.is_grad_enabled() or not self._is_wanted(arguments[moving[0]]):
            return None
        strange = unrepeatable(arguments)
        if strange is not None:
            raise NotRepeatableError(
                f"{type(module).__name__} is given a {type(strange).__name__}, which it may change"
            )
        if self._layers and any(isinstance(child, nn.ModuleList) for child in module.modules()):
            raise NotRepeatableError(f"{type(module).__name__} has blocks of its own, which are layers, too")
        inputs = [arguments[index] for index in moving]
        for index in moving:
            arguments[index] = arguments[index].detach()
        state = Switches.now(), versions(inputs), len(self._mode.kernels), self._repeated
        self._running = _Call(module, arguments, layout, moving, inputs, *state)
        torch.set_grad_enabled(False)  # until the block is done; after an error the run restores it
        return tree_unflatten(arguments, layout)

    def _after(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any) -> Any:
        call = self._running
        if call is None or module is not call.module:
            return None
        self._running = None
        torch.set_grad_enabled(True)
        if versions(call.inputs) != call.versions:
            raise NotRepeatableError(f"{type(module).__name__} changes its input in place")
        results, layout = tree_flatten(output)
        indices = [index for index, x in enumerate(results) if isinstance(x, Tensor) and x.is_floating_point()]
        if not indices:
            return None
        call.results, call.kernels = indices, self._mode.kernels[call.first_kernel :]
        call.output = results[indices[0]].detach()
        kind = type(module), tuple(indices)
        if kind not in self._dependent:
            with Unobserved(), saved_tensors_hooks(lambda _: None, lambda _: torch.empty(0)):  # no backward follows
                repeated = call.repeat(self._mode)[1]
            pairs = zip(indices, repeated, strict=True)
            self._dependent[kind] = [index for index, result in pairs if result.requires_grad]
        call.results = indices = self._dependent[kind]
        if not indices:
            return None
        self.calls += 1
        call.output = results[indices[0]].detach()
        function = _Block.apply(call, self._mode, [results[index] for index in indices], *call.inputs)  # type: ignore[no-untyped-call]
        call.inputs = []
        for index, tensor in zip(indices, function, strict=True):
            results[index] = tensor
        return tree_unflatten(results, layout)

    def notes(self, states: Tensor) -> tuple[str, ...]:
        """Whether a run with such an input should have been checkpointed, and no block was seen."""
        if self.calls or not self._is_wanted(states):
            return ()
        return (f"no blocks can be told apart in the model, {KEPT}",)

    def _is_wanted(self, states: Tensor) -> bool:
        if self._active is None:
            size = STATES_KEPT * self._layer_count * states.numel() * states.element_size()
            self._active = size > KEPT_AT_MOST
        return self._active


@dataclass(eq=False)
class _Call:
    """One call of a block, with all that is needed to repeat it."""

    module: nn.Module
    arguments: list[Any]
    """In a row, tensors as constants."""
    layout: TreeSpec
    moving: list[int]
    """The indices of those that gradients go back to."""
    inputs: list[Tensor]
    """These in the graph, until the block is done."""
    switches: Switches
    """Of torch, as they were: the active modes, and casts of the caller."""
    versions: list[int]
    first_kernel: int
    repeated: bool
    kernels: Sequence[Kernel] = ()
    results: Sequence[int] = ()
    """The indices of the tensors among its results."""
    output: Tensor | None = None
    """The first of them."""

    def repeat(self, mode: LinearizeMode) -> tuple[list[Tensor], list[Tensor]]:
        """Inputs and results in a graph of their own."""
        leaves, arguments = [], list(self.arguments)
        with TemporaryPatch(gradients=True):
            for index in self.moving:
                leaf = arguments[index].detach().requires_grad_()
                leaves.append(leaf)
                arguments[index] = leaf.view_as(leaf)  # a leaf would be taken for a parameter
            args, kwargs = tree_unflatten(arguments, self.layout)
            self.switches.restore()
            with mode.repeat(self.kernels):
                outputs = tree_flatten(self.module(*args, **kwargs))[0]
        results = [outputs[index] for index in self.results]
        assert self.output is not None
        slack = _TOLERANCE.get(self.output.dtype, 5e-2)
        if not torch.allclose(results[0].detach(), self.output, rtol=slack, atol=slack, equal_nan=True):
            raise NotRepeatableError(f"{type(self.module).__name__} gave another output when it was run again")
        return leaves, results


class _Block(LinearizedFunction):
    @staticmethod
    def forward(
        ctx: Any, call: _Call, mode: LinearizeMode, results: list[Tensor], *inputs: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.call, ctx.mode = call, mode
        ctx.set_materialize_grads(False)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        call: _Call = ctx.call
        leaves, results = call.repeat(ctx.mode)
        if not all(tensor.requires_grad for tensor in results):
            raise NotRepeatableError(
                f"{type(call.module).__name__} returns a constant where others of its class do not"
            )
        if not call.repeated:
            ctx.call = None
        pairs = [pair for pair in zip(results, gradients, strict=True) if pair[1] is not None]
        if not pairs:
            return (None, None, None, *[None] * len(leaves))
        ends, slopes = zip(*pairs, strict=True)
        return (None, None, None, *torch.autograd.grad(ends, leaves, slopes, allow_unused=True))
