"""What goes through the blocks of a model while it runs: what enters and leaves each, and the norms inside it.

A block is an element of the model's lists of modules. Its first tensor is the residual stream. What attention adds to
it, and where, is read off these numbers when the block ends (see `residual`), so that nothing of it must be kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from attnx.capturing.joined import BlockCall, NormCall
from attnx.capturing.record import Recorder
from attnx.capturing.residual import joined
from attnx.capturing.untouched import Hooked
from attnx.interrupts import Unbroken


class Blocks(Unbroken[None]):
    """Tell each record of a `Recorder` how its attention joins the stream, in this thread."""

    def __init__(self, model: nn.Module, recorder: Recorder) -> None:
        self._recorder = recorder
        self._open: list[BlockCall] = []
        self._blocks = {id(one) for each in model.modules() if isinstance(each, nn.ModuleList) for one in each}
        blocks = [module for module in model.modules() if id(module) in self._blocks]
        inner = {id(child): child for block in blocks for child in _within(block)}
        self._hooks = Hooked([*blocks, *(one for one in inner.values() if id(one) not in self._blocks)], *self._ends())

    def _begin(self) -> None:
        self._hooks._begin()

    def _end(self) -> None:
        self._hooks._end()
        self._open.clear()

    def _ends(self) -> tuple[Any, Any]:
        def enter(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
            if id(module) in self._blocks:
                states = next((one for one in tensors((*args, *kwargs.values())) if one.ndim == 3), None)
                if states is not None:
                    call = BlockCall(module, _copy(states), len(self._recorder.calls), _precision(states))
                    if "rest" in self._recorder.extras:
                        call.args = tuple(call.states if one is states else one for one in args)
                        call.kwargs = {key: call.states if one is states else one for key, one in kwargs.items()}
                    self._open.append(call)

        def leave(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any) -> None:
            if not self._open:
                return
            left = next(tensors((output,)), None)
            if module is self._open[-1].module:
                self._leave_block(left)
            elif left is not None:
                self._leave_inner(module, next(tensors((*args, *kwargs.values())), None), left)

        return enter, leave

    def _leave_block(self, left: Tensor | None) -> None:
        call = self._open.pop()
        call.left = None if left is None else left.detach()
        seen = [record for record in self._recorder.calls[call.first_record :] if record.joined is None]
        for record, found in zip(seen, joined(seen, call), strict=True):
            record.joined = found
        if len(inside := self._recorder.calls[call.first_record :]) == 1:
            inside[0].block = call
        if self._open and left is not None:
            self._leave_inner(call.module, None, left)

    def _leave_inner(self, module: nn.Module, entered: Tensor | None, left: Tensor) -> None:
        call = self._open[-1]
        if entered is not None and entered.numel() == left.numel() == call.states.numel() and _may_be_norm(module):
            call.norms.append(NormCall(module, _copy(entered), _copy(left)))
        elif left.numel() == call.states.numel() and any(module is one for one in call.module.children()):
            call.children.append(_copy(left))


def _may_be_norm(module: nn.Module) -> bool:
    own = list(module.parameters(recurse=False))
    return next(module.children(), None) is None and bool(own) and all(one.ndim == 1 for one in own)


def _within(block: nn.Module) -> list[nn.Module]:
    """The modules whose calls tell where attention goes: the block's own, and norms at any depth."""
    return [*block.children(), *(one for one in block.modules() if one is not block and _may_be_norm(one))]


def _precision(states: Tensor) -> torch.dtype:
    device = states.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else states.dtype


def _copy(tensor: Tensor) -> Tensor:
    """A block may go on to add to it in place."""
    return tensor.detach().clone()


def tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """The floating-point tensors among arguments or in an output, from the first."""
    for one in values:
        if isinstance(one, Tensor):
            if one.is_floating_point():
                yield one
        elif isinstance(one, (tuple, list)):
            yield from tensors(one)
        elif isinstance(one, Mapping):
            yield from tensors(one.values())
