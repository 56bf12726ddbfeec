"""The rest of a block: what it makes of the residual stream behind its attention, as a function that can be called.

A block is called once more with what it was called with, and one of its calls to torch gives the sum of stream and
attention. From there on other vectors can be put in its place: the block's own code runs on them, its modules called
as the model calls them. Nothing before the sum is computed again; what it gives is an empty tensor of its shape. So the
block must go on from the sum alone, and treat all positions alike. Both are tried before anything is believed: the sum
itself, its positions moved, must give what the block gave.

Where the MLP stands beside attention, or nothing follows, the block is a sum, and no call is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attnx._signals import cached_property
from attnx.errors import CaptureError, out_of_memory
from attnx.hooks.blocks import miss, tensors
from attnx.hooks.forward import eval_mode
from attnx.hooks.patching import grad_mode, looking_on
from attnx.hooks.record import BlockCall, Joined
from attnx.hooks.verification import TOLERANCE


@dataclass(frozen=True, eq=False)
class Rest:
    """The rest of one block of a batch."""

    model: nn.Module
    name: str
    """Of the module that attends."""
    joined: Joined
    call: BlockCall

    def of_input(self, index: int, kept: Tensor | None) -> Callable[[Tensor, Tensor], Tensor]:
        """(vector × width, vector) → vector × width for one input, without its padding: what leaves the block at these
        positions when each vector is taken from what attention adds there."""
        length = self.joined.states.shape[1]

        def without(taken: Tensor, positions: Tensor) -> Tensor:
            places = positions if kept is None else kept.to(positions.device)[positions]
            return self.without(taken, places + index * length)

        return without

    def without(self, taken: Tensor, places: Tensor) -> Tensor:
        """The same, positions counted through the batch."""
        with grad_mode(gradients=False):
            return self._without(taken.to(self._left), places)

    def _without(self, taken: Tensor, places: Tensor) -> Tensor:
        made, behind = self._made
        if self.joined.on_branch is not None:
            norm = self.joined.on_branch
            with eval_mode(self.model):
                branch = norm.module(_flat(norm.entered)[places] - taken)
            states = _flat(self.joined.states)[places] + branch
        else:
            gain = 1 if self.joined.branch is None else self.joined.branch.gain.to(taken)
            if made is None:
                return self._left[places] - gain * taken
            states = made[places] - gain * taken
        return self._left[places] + states - self._sum[places] if behind is None else behind(states)

    @property
    def tolerance(self) -> float:
        """How far the block may be off when it is run again."""
        return TOLERANCE.get(self.call.precision, 1e-4)

    @cached_property
    def _left(self) -> Tensor:
        assert self.call.left is not None
        return _flat(self.call.left)

    @cached_property
    def _sum(self) -> Tensor:
        """position × width: what attention and stream make together where the block is a sum."""
        norm, branch = self.joined.on_branch, self.joined.branch
        assert norm is not None
        assert branch is not None
        return _flat(self.joined.states + branch(norm.entered.reshape(self.joined.states.shape)))

    @cached_property
    def _made(self) -> tuple[Tensor | None, Callable[[Tensor], Tensor] | None]:
        """The sum as the block made it, if it did, and the function from it to what leaves; None where that adds."""
        rehearsal = _Rehearsal(self.joined.met, self.joined.rows, self.call.states.shape, self.tolerance)
        self._run(rehearsal)
        if rehearsal.made is None:
            return None, None
        made, before = _flat(rehearsal.made), rehearsal.before
        for size in (None, len(made)):
            behind = _Behind(self, before, rehearsal.made.shape, size)
            if behind.gives(made, self._left):
                return made, behind
        moved = made + torch.linspace(-1, 1, made.shape[-1], dtype=made.dtype, device=made.device)
        tensor = self._run(_Replaced(len(before), moved.reshape(rehearsal.made.shape)))
        if _near(_flat(tensor), self._left + moved - made, self.tolerance):
            return None, None
        raise CaptureError(
            f"the rest of the block around {self.name} cannot be run by itself: it reads more than the sum behind "
            "attention, or mixes positions. value_zeroing needs that; use alti, or references=('lrp',)"
        )

    def _run(self, mode: TorchFunctionMode) -> Tensor:
        """What the block gives while the mode answers some of its calls to torch."""
        call = self.call
        with eval_mode(self.model), looking_on(mode):
            output = call.module(*call.args, **call.kwargs)
        return next(tensors((output,)))


@dataclass(frozen=True, eq=False)
class _Behind:
    """What a block makes of the sum behind attention, one vector like another."""

    rest: Rest
    before: Sequence[Any]
    shape: torch.Size
    """As the block made the sum."""
    size: int | None
    """How many vectors a call takes; None for any number."""

    def __call__(self, states: Tensor) -> Tensor:
        """vector × width → vector × width."""
        if self.size is None:
            shape = (*[1] * (len(self.shape) - 2), *states.shape)
            return _flat(self.rest._run(_Replaced(len(self.before), states.reshape(shape), self.before)))
        size = self.size
        return torch.cat([self._whole(states[begin : begin + size]) for begin in range(0, len(states), size)])

    def _whole(self, states: Tensor) -> Tensor:
        """As many vectors as the block was called with; what is missing is filled up."""
        assert self.size is not None
        filled = torch.cat([states, states[-1:].expand(self.size - len(states), -1)]).reshape(self.shape)
        return _flat(self.rest._run(_Replaced(len(self.before), filled, self.before)))[: len(states)]

    def gives(self, made: Tensor, left: Tensor) -> bool:
        """Whether vectors in another order, and one of them twice, give what the block gave of each."""
        order = torch.arange(-1, len(made), device=made.device).roll(1) % len(made)
        try:
            return _near(self(made[order]), left[order], self.rest.tolerance)
        except (RuntimeError, ValueError, IndexError, TypeError) as error:  # shapes that were fixed before the sum
            if out_of_memory(error):
                raise
            return False


class _Rehearsal(TorchFunctionMode):
    """Looks for the call that makes the sum, and remembers the shapes of what was made before it."""

    def __init__(self, met: Tensor, rows: Any, shape: torch.Size, slack: float) -> None:
        super().__init__()
        self._met, self._rows, self._shape, self._slack = met, rows, shape, slack
        self.before: list[Any] = []
        self.made: Tensor | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if self.made is None:
            if self._is_sum(result):
                self.made = result.detach().clone()
            else:
                self.before.append(_emptied(result))
        return result

    def _is_sum(self, result: Any) -> bool:
        if not isinstance(result, Tensor) or not result.is_floating_point() or result.ndim < 2:
            return False
        if result.numel() != self._shape.numel() or result.shape[-1] != self._shape[-1]:
            return False
        seen = result.detach().reshape(self._shape)[:, self._rows].to(self._met)
        return miss(seen, self._met) <= self._slack


class _Replaced(TorchFunctionMode):
    """Gives another sum. With `before` nothing before it is computed: shapes and numbers are as they were."""

    def __init__(self, place: int, states: Tensor, before: Sequence[Any] | None = None) -> None:
        super().__init__()
        self._place, self._states, self._before = place, states, before
        self._calls = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        place, self._calls = self._calls, self._calls + 1
        if place == self._place:
            return self._states
        if place < self._place and self._before is not None:
            return _filled(self._before[place])
        return func(*args, **(kwargs or {}))


@dataclass(frozen=True)
class _Empty:
    """A tensor of which only its kind is kept."""

    shape: torch.Size
    dtype: torch.dtype
    device: torch.device


def _emptied(result: Any) -> Any:
    if isinstance(result, Tensor):
        return _Empty(result.shape, result.dtype, result.device)
    if type(result) in (tuple, list):
        return type(result)(_emptied(one) for one in result)
    return result


def _filled(kept: Any) -> Any:
    if isinstance(kept, _Empty):
        return torch.zeros((), dtype=kept.dtype, device=kept.device).expand(kept.shape)
    if type(kept) in (tuple, list):
        return type(kept)(_filled(one) for one in kept)
    return kept


def _flat(tensor: Tensor) -> Tensor:
    return tensor.reshape(-1, tensor.shape[-1])


def _near(tensor: Tensor, other: Tensor, tolerance: float) -> bool:
    return tensor.shape == other.shape and miss(tensor, other) <= tolerance
