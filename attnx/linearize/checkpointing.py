"""Block by block: of a long input what enters each block is kept, and the block is run again on the way back.

A block is an element of the model's lists of modules, the outermost of them. On the way there it runs without a graph,
and its output stands in the graph as one function of what entered. On the way back it is run again under the same
mode, so that its gradients are the frozen ones, and gone back through; then its graph is let go of. So what the way
back needs is kept of one block at a time. What comes out a second time must be what came out first, and what is a
constant of the input where all is kept must be one here: which results are is tried on the first block of a class.
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
from attnx.hooks import ModuleObserver, Switches, TemporaryPatch, Unobserved
from attnx.linearize.autograd import Straight
from attnx.linearize.mode import Kernel, LinearizeMode

STATES_KEPT = 14
"""About as many tensors of the size of its states does the way back through a block need."""

KEPT_AT_MOST = 2**30
"""Bytes that may be kept for the way back: those of 2,080 positions of 12 blocks of 768 channels."""

KEPT = "so all that the way back needs was kept in memory"

_PLAIN = (Tensor, str, int, float, complex, torch.dtype, torch.device, torch.Size, type(None))
"""What a block can be given twice."""

_SLACK = {torch.float64: 1e-9, torch.float32: 1e-4}


class NotAgainError(CaptureError):
    """A block cannot be run again: the whole model has to be kept."""


class Replaying(ModuleObserver):
    """Run blocks again on the way back, inside the block; in this thread, and where there is more to keep than allowed.

    `whole` decides it by itself: False keeps everything, True nothing. With `layers` what enters each block is asked
    for, so that none may be inside another. Where the way back is gone `often`, a block is run again each time.
    """

    def __init__(self, model: nn.Module, mode: LinearizeMode, whole: bool | None, *, layers: bool, often: bool) -> None:
        lists = [each for each in model.modules() if isinstance(each, nn.ModuleList)]
        index = getattr(getattr(model, "config", None), "num_hidden_layers", None)
        self.blocks = {id(module): module for each in lists for module in each}
        self.calls = 0
        """Blocks that were called so, and are run again."""
        self._mode, self._replays, self._levels, self._often = mode, whole, layers, often
        self._layers = max([index if isinstance(index, int) else 1, *map(len, lists)])
        self._running: _Call | None = None
        self._carried: dict[tuple[type, tuple[int, ...]], list[int]] = {}
        """For blocks of a class with tensors at these places of their results: those that hang on the input."""
        super().__init__([] if whole is False else self.blocks.values(), self._block_begins, self._block_ends)

    def _block_begins(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if self._running is not None or self._mode.replaying:
            return None
        given, layout = tree_flatten((args, dict(kwargs)), is_leaf=lambda one: not isinstance(one, (tuple, list, dict)))
        moving = [place for place, tensor in enumerate(given) if isinstance(tensor, Tensor) and tensor.requires_grad]
        if not moving or not torch.is_grad_enabled() or not self._wanted(given[moving[0]]):
            return None
        strange = next((one for one in given if not isinstance(one, _PLAIN)), None)
        if strange is not None:  # a cache of keys and values would be filled twice
            raise NotAgainError(f"{type(module).__name__} is given a {type(strange).__name__}, which it may change")
        if self._levels and any(isinstance(one, nn.ModuleList) for one in module.modules()):
            raise NotAgainError(f"{type(module).__name__} has blocks of its own, which are levels, too")
        inputs = [given[place] for place in moving]
        for place in moving:
            given[place] = given[place].detach()
        known = Switches.now(), self._versions(inputs), len(self._mode.kernels), self._often
        self._running = _Call(module, given, layout, moving, inputs, *known)
        torch.set_grad_enabled(False)  # until it leaves; after an error the run puts it back
        return tree_unflatten(given, layout)

    def _block_ends(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any) -> Any:
        call = self._running
        if call is None or module is not call.module:
            return None
        self._running = None
        torch.set_grad_enabled(True)
        if self._versions(call.inputs) != call.versions:
            raise NotAgainError(f"{type(module).__name__} changes its input in place")
        given, layout = tree_flatten(output)
        carried = [
            place for place, tensor in enumerate(given) if isinstance(tensor, Tensor) and tensor.is_floating_point()
        ]
        if not carried:
            return None
        call.carried, call.kernels = carried, self._mode.kernels[call.first_kernel :]
        call.left = given[carried[0]].detach()
        kind = type(module), tuple(carried)
        if kind not in self._carried:
            self._carried[kind] = self._moving(call)
        call.carried = carried = self._carried[kind]
        if not carried:
            return None
        self.calls += 1
        call.left = given[carried[0]].detach()
        made = _Block.apply(call, self._mode, [given[place] for place in carried], *call.inputs)  # type: ignore[no-untyped-call]
        call.inputs = []
        for place, one in zip(carried, made, strict=True):
            given[place] = one
        return tree_unflatten(given, layout)

    def _moving(self, call: _Call) -> list[int]:
        """The places of the block's results that hang on its input, by a run with a graph."""
        with Unobserved(), saved_tensors_hooks(lambda _: None, lambda _: torch.empty(0)):  # no backward follows
            results = call.again(self._mode)[1]
        return [place for place, result in zip(call.carried, results, strict=True) if result.requires_grad]

    def notes(self, states: Tensor) -> tuple[str, ...]:
        """What to know after a run that such states entered: whether it was to be done so, and no block was seen."""
        if self.calls or not self._wanted(states):
            return ()
        return (f"no blocks can be told apart in the model, {KEPT}",)

    def _wanted(self, states: Tensor) -> bool:
        if self._replays is None:
            kept = STATES_KEPT * self._layers * states.numel() * states.element_size()
            self._replays = kept > KEPT_AT_MOST
        return self._replays

    @staticmethod
    def _versions(tensors: Sequence[Tensor]) -> list[int]:
        return [tensor._version for tensor in tensors]


@dataclass(eq=False)
class _Call:
    """One call of a block, with all that is needed to make it again."""

    module: nn.Module
    given: list[Any]
    """Its arguments in a row, tensors as constants."""
    layout: TreeSpec
    moving: list[int]
    """The places of those that gradients go back to."""
    inputs: list[Tensor]
    """These as they stand in the graph, until the block is left."""
    switches: Switches
    """Of torch, as they were: the mode among those that look on, and casts that the caller asked for."""
    versions: list[int]
    first_kernel: int
    often: bool
    """Whether the block is gone back through more than once."""
    kernels: Sequence[Kernel] = ()
    carried: Sequence[int] = ()
    """The places of the tensors among its results."""
    left: Tensor | None = None
    """The first of them."""

    def again(self, mode: LinearizeMode) -> tuple[list[Tensor], list[Tensor]]:
        """What entered and what left, in a graph of their own."""
        leaves, given = [], list(self.given)
        with TemporaryPatch((), gradients=True):
            for place in self.moving:
                leaf = given[place].detach().requires_grad_()
                leaves.append(leaf)
                given[place] = leaf.view_as(leaf)  # a leaf would be taken for a parameter
            args, kwargs = tree_unflatten(given, self.layout)
            self.switches.restore()
            with mode.run_again(self.kernels):
                results = tree_flatten(self.module(*args, **kwargs))[0]
        found = [results[place] for place in self.carried]
        assert self.left is not None
        slack = _SLACK.get(self.left.dtype, 5e-2)
        if not torch.allclose(found[0].detach(), self.left, rtol=slack, atol=slack, equal_nan=True):
            raise NotAgainError(f"{type(self.module).__name__} gave another output when it was run again")
        return leaves, found


class _Block(Straight):
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
        leaves, found = call.again(ctx.mode)
        pairs = [(tensor, gradient) for tensor, gradient in zip(found, gradients, strict=True) if gradient is not None]
        if not all(tensor.requires_grad for tensor in found):
            raise NotAgainError(f"{type(call.module).__name__} returns a constant where others of its class do not")
        if not call.often:
            ctx.call = None  # gone back through once, and let go of
        if not pairs:
            return (None, None, None, *[None] * len(leaves))
        ends, slopes = zip(*pairs, strict=True)
        back = torch.autograd.grad(ends, leaves, slopes, allow_unused=True)
        return (None, None, None, *back)
