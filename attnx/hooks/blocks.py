"""How attention is added to the residual stream of its block, found by comparing sums with what the block computed.

A block is an element of the model's lists of modules; its first tensor is the residual stream. When it ends, what its
attention adds, and where, is read off the tensors that went through it, so that nothing of it must be kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from attnx.attention import LinearizedNorm, autocast_disabled, repeat_kv
from attnx.errors import CaptureError
from attnx.hooks.patching import ModuleObserver, grad_mode, listed_modules, parameters_of
from attnx.hooks.record import BlockCall, NormCall, Record, Recorder, ResidualAdd
from attnx.hooks.tracing import tensors_in
from attnx.hooks.verification import TOLERANCE, computed_rows, rows_checked

_EXACT = 1e-10
"""How far a sum in double precision may be off, as a share of its largest number; in single precision it is 1e-4."""

_INSTEAD = "use methods of attention itself (rollout, flow), or methods=['lrp']"


@dataclass(frozen=True, eq=False)
class _Sum:
    """One way in which attention may have been added to the stream, on some rows."""

    branch: LinearizedNorm | None
    branch_norm: NormCall | None
    end: NormCall | None
    """The norm that the sum enters, if one does."""
    miss: float
    observed: Tensor
    """batch × row × width."""


def residual_adds(records: Sequence[Record], call: BlockCall) -> list[ResidualAdd | CaptureError]:
    """How the attention of each record joins the stream of its block, or why that is not known.

    A decoder's block may attend twice: the second is added to what the first gave, as it is (pre-LN) or normed.
    """
    results: list[ResidualAdd | CaptureError] = []
    streams = [call.input]
    for record in records:
        if not streams:
            message = f"{record.module} is one of several attention calls of its block; {_INSTEAD}"
            results.append(CaptureError(message))
            continue
        attempts = [_residual_add(record, replace(call, input=states)) for states in streams]
        result, end = next((attempt for attempt in attempts if isinstance(attempt[0], ResidualAdd)), attempts[0])
        if isinstance(result, ResidualAdd) and record is not records[-1]:
            result = replace(result, last=None)  # the norm that ends this block norms another sum
        results.append(result)
        streams = [] if end is None else [tensor.reshape(call.input.shape) for tensor in (end.output, end.input)]
    return results


def _residual_add(record: Record, call: BlockCall) -> tuple[ResidualAdd | CaptureError, NormCall | None]:
    """Of one record, and the norm that the sum enters."""
    if record.projection is None or record.values is None:
        message = f"no output projection was seen behind the attention of {record.module}; {_INSTEAD}"
        return CaptureError(message), None
    bias = record.projection.new_zeros(len(record.projection)) if record.bias is None else record.bias
    with grad_mode(gradients=False), autocast_disabled(call.input.device.type):
        attended, rows = _attended(record, record.values, record.projection, bias)
        if attended.shape[::2] != call.input.shape[::2]:
            return CaptureError(f"the attention of {record.module} is not as wide as its block; {_INSTEAD}"), None
        nearest = float("inf")
        for candidate in _sums(call, attended, rows):
            if candidate.miss <= _tolerance(call.precision, candidate.branch):
                norm, last = _norms_after(call, candidate.end)
                add = ResidualAdd(
                    states=call.input,
                    bias=bias.detach(),
                    branch=candidate.branch,
                    norm=norm,
                    last=last,
                    miss=candidate.miss,
                    observed=candidate.observed,
                    rows=rows,
                    branch_norm=candidate.branch_norm,
                )
                return add, candidate.end
            nearest = min(nearest, candidate.miss)
    message = (
        f"what {record.module} adds to its block was not found again (nearest: off by {nearest:.2g}): a gate, a norm "
        f"between values and projection, or a connection that attnx does not know. Its parts cannot be told; {_INSTEAD}"
    )
    return CaptureError(message), None


def _attended(record: Record, values: Tensor, projection: Tensor, bias: Tensor) -> tuple[Tensor, list[int] | slice]:
    """batch × row × width: Σ_j T_i(j) + b, of all rows where the weights are kept and else of some; and which."""
    rows: list[int] | slice = slice(None)
    weights = record.weights
    if weights is None:
        rows = rows_checked(record.shape[-2])
        weights = computed_rows(record.computed, rows)  # type: ignore[arg-type]
    mixed = weights @ repeat_kv(values, weights.shape[1]).to(weights)
    return mixed.transpose(1, 2).flatten(2) @ projection.to(weights).T + bias.to(weights), rows


def _sums(call: BlockCall, attended: Tensor, rows: list[int] | slice) -> Iterator[_Sum]:
    """Every way to see the sum again, each with its miss, the simplest first."""

    def on_rows(tensor: Tensor) -> Tensor:
        return tensor.reshape(call.input.shape)[:, rows].to(attended)

    states, tolerance = on_rows(call.input), _tolerance(call.precision)
    branches: list[tuple[LinearizedNorm | None, Tensor, NormCall | None]] = [(None, attended, None)]
    for norm in call.norms:
        if miss(attended, on_rows(norm.input)) <= tolerance:
            linearized = linearized_norm(norm, call.input)
            if linearized is not None:
                branch_output = linearized(norm.input.reshape(call.input.shape))
                branches.append((linearized, on_rows(branch_output), norm))
    ends: list[tuple[NormCall | None, Tensor]] = [(norm, on_rows(norm.input)) for norm in call.norms]
    if call.output is not None and call.output.numel() == call.input.numel():
        output = on_rows(call.output)
        ends += [(None, output), *((None, output - on_rows(child)) for child in call.children)]
    if miss(states, states + attended) > tolerance:
        # Where the stream is seen as it entered, nothing has been added yet.
        ends = [(end, observed) for end, observed in ends if miss(states, observed) > tolerance]
    for branch, added, branch_norm in branches:
        for end, observed in ends:
            yield _Sum(branch, branch_norm, end, miss(states + added, observed), observed)
    if attended.shape[0] * attended.shape[1] > 1:  # of one row a constant for each channel would always fit
        for end, observed in ends:
            added = observed - states
            size = attended.square().sum((0, 1)).clamp(min=torch.finfo(attended.dtype).tiny)
            gain = (attended * added).sum((0, 1)) / size
            ones = torch.ones(call.input.shape[:2], dtype=gain.dtype, device=gain.device)
            constants = LinearizedNorm(gain, ones, torch.zeros_like(gain), False)
            yield _Sum(constants, None, end, miss(attended * gain + observed - added, observed), observed)


def _norms_after(call: BlockCall, end: NormCall | None) -> tuple[LinearizedNorm | None, LinearizedNorm | None]:
    """The norm that the sum enters and the one that the block ends with, where the block ends with one."""
    if end is None or call.output is None or call.output.numel() != call.input.numel():
        return None, None
    output = call.output.reshape(-1)
    last = next((norm for norm in reversed(call.norms) if torch.equal(norm.output.reshape(-1), output)), None)
    if last is None:
        return None, None
    return linearized_norm(end, call.input), None if last is end else linearized_norm(last, call.input)


def linearized_norm(call: NormCall, like: Tensor) -> LinearizedNorm | None:
    """The norm as the linear map that it was: of all that a norm may be, what gives its output; None if nothing does.

    The scale is read off the output, so that no ε need be known.
    """
    states, output = (tensor.reshape(like.shape).double() for tensor in (call.input, call.output))
    gain, *others = (parameter.double() for parameter in parameters_of(call.module))
    shift = others[0] if others else torch.zeros_like(gain)
    if gain.shape != like.shape[-1:] or shift.shape != gain.shape:
        return None
    best, smallest = None, float(output.abs().max()) * TOLERANCE.get(like.dtype, 1e-4)
    for centred in (True, False):
        for factor in (gain, 1 + gain):  # Gemma's weight is what is added to 1
            unscaled = LinearizedNorm(factor, output.new_ones(()), shift, centred).unscaled(states)
            size = unscaled.square().sum(-1).clamp(min=torch.finfo(torch.float64).tiny)
            scale = (unscaled * (output - shift)).sum(-1) / size
            off = float((unscaled * scale[..., None] + shift - output).abs().max())
            if off <= smallest:
                best, smallest = LinearizedNorm(factor, scale, shift, centred), off
    return best


def miss(sums: Tensor, observed: Tensor) -> float:
    """By how much a row is off, as a share of its largest number: single rows are thousands of times larger."""
    size = observed.abs().amax(-1).clamp(min=torch.finfo(observed.dtype).tiny)
    return float(((sums - observed).abs().amax(-1) / size).max())


def _tolerance(dtype: torch.dtype, branch: LinearizedNorm | None = None) -> float:
    """Many models compute their norms in single precision, whatever their weights are."""
    return _EXACT if dtype == torch.float64 and branch is None else TOLERANCE.get(dtype, 1e-4)


class BlockObserver(ModuleObserver):
    """Add to each record how its attention joins the residual stream."""

    def __init__(self, model: nn.Module, recorder: Recorder) -> None:
        self._recorder = recorder
        self._open: list[BlockCall] = []
        self._blocks = listed_modules(model)
        inner = [
            module
            for block in self._blocks.values()
            for module in (*block.children(), *filter(_may_be_norm, block.modules()))
        ]
        super().__init__({**self._blocks, **{id(x): x for x in inner}}.values(), self._before, self._after)

    def _end(self) -> None:
        super()._end()
        self._open.clear()

    def _before(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        states = next((x for x in floating_tensors((args, kwargs)) if x.ndim == 3), None)
        if id(module) not in self._blocks or states is None:
            return
        call = BlockCall(module, _copy(states), len(self._recorder.calls), _precision(states))
        if "rest" in self._recorder.extras:
            call.args = tuple(call.input if argument is states else argument for argument in args)
            call.kwargs = {name: call.input if value is states else value for name, value in kwargs.items()}
        self._open.append(call)

    def _after(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any) -> None:
        if not self._open:
            return
        tensor = next(floating_tensors(output), None)
        if module is not self._open[-1].module:
            if tensor is not None:
                self._inner_call(module, next(floating_tensors((args, kwargs)), None), tensor)
            return
        call = self._open.pop()
        call.output = None if tensor is None else tensor.detach()
        inside = self._recorder.calls[call.first_record :]
        records = [record for record in inside if record.residual is None]
        for record, residual in zip(records, residual_adds(records, call), strict=True):
            record.residual = residual
        if len(inside) == 1:
            inside[0].block = call
        if self._open and tensor is not None:
            self._inner_call(call.module, None, tensor)

    def _inner_call(self, module: nn.Module, states: Tensor | None, output: Tensor) -> None:
        call = self._open[-1]
        if output.numel() != call.input.numel():
            return
        if states is not None and states.numel() == output.numel() and _may_be_norm(module):
            call.norms.append(NormCall(module, _copy(states), _copy(output)))
        elif any(module is child for child in call.module.children()):
            call.children.append(_copy(output))


def _may_be_norm(module: nn.Module) -> bool:
    parameters = list(module.parameters(recurse=False))
    vectors = bool(parameters) and all(parameter.ndim == 1 for parameter in parameters)
    return vectors and next(module.children(), None) is None


def _precision(states: Tensor) -> torch.dtype:
    device = states.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else states.dtype


def _copy(tensor: Tensor) -> Tensor:
    """A block may go on to add to it in place."""
    return tensor.detach().clone()


def floating_tensors(nested: Any) -> Iterator[Tensor]:
    return (tensor for tensor in tensors_in(nested) if tensor.is_floating_point())
