"""What goes through the blocks of a model while it runs: what enters and leaves each, and the norms inside it.

A block is an element of the model's lists of modules. Its first tensor is the residual stream. What attention adds to
it, and where, is read off these numbers when the block ends (see `residual`), so that nothing of it must be kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from attnx._signals import Uninterruptible
from attnx.attention import LinearizedNorm, autocast_disabled, pad_keys, repeat_kv
from attnx.errors import CaptureError
from attnx.hooks.patching import ModuleObserver, grad_mode, parameters_of
from attnx.hooks.record import BlockCall, Joined, NormCall, Record, Recorder
from attnx.hooks.verification import TOLERANCE, rows_checked

_EXACT = 1e-10
"""How far a sum in double precision may be off, as a share of its largest number; in single precision it is 1e-4."""

_INSTEAD = "use methods of attention itself (rollout, flow), or references=('lrp',)"


@dataclass(frozen=True, eq=False)
class _Sum:
    """A sum that was found again, on some rows."""

    branch: LinearizedNorm | None
    end: NormCall | None
    """The norm that it enters, if it is seen there."""
    miss: float
    met: Tensor
    """As it was seen, batch × row × width."""
    on_branch: NormCall | None = None
    """The norm of the branch, if it is one."""


def joined(records: Sequence[Record], call: BlockCall) -> list[Joined | CaptureError]:
    """How the attention of each record joins the stream of its block, or why that is not known.

    A decoder's block may attend twice: the second is added to what the first left, as it is (pre-LN) or normed.
    """
    result: list[Joined | CaptureError] = []
    sequences = [call.states]
    for record in records:
        if not sequences:
            result.append(CaptureError(f"{record.module} is one of several attention calls of its block; {_INSTEAD}"))
            continue
        tried = [_joined(record, replace(call, states=states)) for states in sequences]
        one, end = next((each for each in tried if isinstance(each[0], Joined)), tried[0])
        # In a block that attends again, what is normed at its end is another sum.
        again = isinstance(one, Joined) and record is not records[-1]
        result.append(replace(one, last=None) if again and isinstance(one, Joined) else one)
        sequences = [] if end is None else [states.reshape(call.states.shape) for states in (end.left, end.entered)]
    return result


def _joined(record: Record, call: BlockCall) -> tuple[Joined | CaptureError, NormCall | None]:
    """Of one record, and the norm that the sum enters."""
    if record.projection is None or record.values is None:
        return CaptureError(f"no output projection was seen behind the attention of {record.module}; {_INSTEAD}"), None
    bias = record.projection.new_zeros(len(record.projection)) if record.bias is None else record.bias
    with grad_mode(gradients=False), autocast_disabled(call.states.device.type):
        attended, rows = _attended(record, bias)
        if attended.shape[::2] != call.states.shape[::2]:
            return CaptureError(f"the attention of {record.module} is not as wide as its block; {_INSTEAD}"), None
        nearest = float("inf")
        for found in _sums(call, attended, rows):
            if found.miss <= _slack(call.precision, found.branch):
                norms = _behind(call, found.end)
                made = Joined(
                    call.states, bias.detach(), found.branch, *norms, found.miss, found.met, rows, found.on_branch
                )
                return made, found.end
            nearest = min(nearest, found.miss)
    return (
        CaptureError(
            f"what {record.module} adds to its block was not found again (nearest: off by {nearest:.2g}): a gate, a "
            "norm between values and projection, or a connection that attnx does not know. Its parts cannot be told; "
            f"{_INSTEAD}"
        ),
        None,
    )


def _attended(record: Record, bias: Tensor) -> tuple[Tensor, list[int] | slice]:
    """batch × row × width: Σ_j T_i(j) + b, of all rows where attention is held and else of some; and which."""
    assert record.values is not None
    assert record.projection is not None
    rows: list[int] | slice = slice(None)
    weights = record.weights
    if weights is None:
        rows = rows_checked(record.shape[-2])
        weights = torch.stack(
            [
                torch.cat([pad_keys(one.rows(row, row + 1), one.mask.length) for row in rows], 1)
                for one in record.computed
            ]
        )
    mixed = weights @ repeat_kv(record.values, weights.shape[1]).to(weights)
    return mixed.transpose(1, 2).flatten(2) @ record.projection.to(weights).T + bias.to(weights), rows


def _sums(call: BlockCall, attended: Tensor, rows: list[int] | slice) -> Iterator[_Sum]:
    """Every way to see the sum again, each with its miss, the plainest first."""

    def seen(tensor: Tensor) -> Tensor:
        return tensor.reshape(call.states.shape)[:, rows].to(attended)

    states = seen(call.states)
    branches: list[tuple[LinearizedNorm | None, Tensor, NormCall | None]] = [(None, attended, None)]
    for norm in call.norms:
        if miss(attended, seen(norm.entered)) <= _slack(call.precision):
            frozen = frozen_norm(norm, call.states)
            if frozen is not None:
                branches.append((frozen, seen(frozen(norm.entered.reshape(call.states.shape))), norm))
    ends: list[tuple[NormCall | None, Tensor]] = [(norm, seen(norm.entered)) for norm in call.norms]
    if call.left is not None and call.left.numel() == call.states.numel():
        left = seen(call.left)
        ends += [(None, left), *((None, left - seen(child)) for child in call.children)]
    if miss(states, states + attended) > _slack(call.precision):
        # Where the stream is seen as it entered, nothing has been added yet.
        ends = [(end, met) for end, met in ends if miss(states, met) > _slack(call.precision)]
    for branch, part, on_branch in branches:
        for end, met in ends:
            yield _Sum(branch, end, miss(states + part, met), met, on_branch)
    if attended.shape[0] * attended.shape[1] > 1:  # of one row any channel's constant would fit
        for end, met in ends:
            yield _by_channel(call, attended, met - states, met, end)


def _by_channel(call: BlockCall, attended: Tensor, added: Tensor, met: Tensor, end: NormCall | None) -> _Sum:
    """The sum with a constant for each channel on the branch, the one that fits best."""
    gain = (attended * added).sum((0, 1)) / attended.square().sum((0, 1)).clamp(min=torch.finfo(attended.dtype).tiny)
    ones = torch.ones(call.states.shape[:2], dtype=gain.dtype, device=gain.device)
    constants = LinearizedNorm(gain, ones, torch.zeros_like(gain), False)
    return _Sum(constants, end, miss(attended * gain + met - added, met), met)


def _behind(call: BlockCall, end: NormCall | None) -> tuple[LinearizedNorm | None, LinearizedNorm | None]:
    """The norm that the sum enters and the one that the block ends with, where the block ends with one."""
    if end is None or call.left is None or call.left.numel() != call.states.numel():
        return None, None
    left = call.left.reshape(-1)
    last = next((norm for norm in reversed(call.norms) if torch.equal(norm.left.reshape(-1), left)), None)
    if last is None:
        return None, None
    return frozen_norm(end, call.states), None if last is end else frozen_norm(last, call.states)


def frozen_norm(call: NormCall, like: Tensor) -> LinearizedNorm | None:
    """The norm as the linear map that it was: of all that a norm may be, what gives its output; None if nothing does.

    The scale is read off the output, so that no ε need be known.
    """
    entered, left = (tensor.reshape(like.shape).double() for tensor in (call.entered, call.left))
    gain, *further = (parameter.double() for parameter in parameters_of(call.module))
    shift = further[0] if further else torch.zeros_like(gain)
    if gain.shape != like.shape[-1:] or shift.shape != gain.shape:
        return None
    best, miss = None, float(left.abs().max()) * _slack(like.dtype, lenient=True)
    for centred in (True, False):
        for factor in (gain, 1 + gain):  # Gemma's weight is what is added to 1
            unscaled = LinearizedNorm(factor, left.new_ones(()), shift, centred).unscaled(entered)
            size = unscaled.square().sum(-1).clamp(min=torch.finfo(torch.float64).tiny)
            scale = (unscaled * (left - shift)).sum(-1) / size
            off = float((unscaled * scale[..., None] + shift - left).abs().max())
            if off <= miss:
                best, miss = LinearizedNorm(factor, scale, shift, centred), off
    return best


def miss(sums: Tensor, seen: Tensor) -> float:
    """By how much a row is off, as a share of its largest number: single rows are thousands of times larger."""
    size = seen.abs().amax(-1).clamp(min=torch.finfo(seen.dtype).tiny)
    return float(((sums - seen).abs().amax(-1) / size).max())


def _slack(dtype: torch.dtype, branch: LinearizedNorm | None = None, *, lenient: bool = False) -> float:
    """Many models compute their norms in single precision, whatever their weights are."""
    if dtype == torch.float64 and branch is None and not lenient:
        return _EXACT
    return TOLERANCE.get(dtype, 1e-4)


class Blocks(Uninterruptible[None]):
    """Tell each record of a `Recorder` how its attention joins the stream, in this thread."""

    def __init__(self, model: nn.Module, recorder: Recorder) -> None:
        self._recorder = recorder
        self._open: list[BlockCall] = []
        self._blocks = {id(module) for each in model.modules() if isinstance(each, nn.ModuleList) for module in each}
        blocks = [module for module in model.modules() if id(module) in self._blocks]
        inner = {id(child): child for block in blocks for child in _within(block)}
        self._hooks = ModuleObserver(
            [*blocks, *(module for module in inner.values() if id(module) not in self._blocks)], *self._ends()
        )

    def _begin(self) -> None:
        self._hooks._begin()

    def _end(self) -> None:
        self._hooks._end()
        self._open.clear()

    def _ends(self) -> tuple[Any, Any]:
        def enter(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
            if id(module) in self._blocks:
                states = next((tensor for tensor in tensors((*args, *kwargs.values())) if tensor.ndim == 3), None)
                if states is not None:
                    call = BlockCall(module, _copy(states), len(self._recorder.calls), _precision(states))
                    if "rest" in self._recorder.extras:
                        call.args = tuple(call.states if argument is states else argument for argument in args)
                        call.kwargs = {
                            key: call.states if keyword is states else keyword for key, keyword in kwargs.items()
                        }
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
    parameters = list(module.parameters(recurse=False))
    return (
        next(module.children(), None) is None
        and bool(parameters)
        and all(parameter.ndim == 1 for parameter in parameters)
    )


def _within(block: nn.Module) -> list[nn.Module]:
    """The modules whose calls tell where attention goes: the block's own, and norms at any depth."""
    return [*block.children(), *(module for module in block.modules() if module is not block and _may_be_norm(module))]


def _precision(states: Tensor) -> torch.dtype:
    device = states.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else states.dtype


def _copy(tensor: Tensor) -> Tensor:
    """A block may go on to add to it in place."""
    return tensor.detach().clone()


def tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """The floating-point tensors among arguments or in an output, from the first."""
    for value in values:
        if isinstance(value, Tensor):
            if value.is_floating_point():
                yield value
        elif isinstance(value, (tuple, list)):
            yield from tensors(value)
        elif isinstance(value, Mapping):
            yield from tensors(value.values())
