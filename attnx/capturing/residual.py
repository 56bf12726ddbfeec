"""Where attention joins the residual stream of its block, found in the numbers that went through it.

With x the state that enters, T_i(j) what key j hands to query i, and b the bias of the output projection, attention is
joined where `x_i + Σ_j T_i(j) + b` is seen again:

- as what enters a norm or leaves the block: the sum goes on;
- with the output of one of the block's modules added, as what leaves the block: the MLP stands beside attention;
- after a norm, or a constant for each channel, on attention's own branch.

If the block's last step is a norm, so is the one behind the sum (post-LN). No family is known by name. The sum is
checked on every run that needs it, so what is read off it is what the model did.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnx.attention.computed import full_precision, per_query_head
from attnx.attention.levels import all_keys
from attnx.attention.norms import FrozenNorm
from attnx.capturing.joined import BlockCall, Joined, NormCall
from attnx.capturing.proof import TOLERANCE, rows_checked
from attnx.capturing.record import Record
from attnx.capturing.untouched import parameters_of, switched
from attnx.errors import CaptureError

_EXACT = 1e-10
"""How far a sum in double precision may be off, as a share of its largest number; in single precision it is 1e-4."""

_INSTEAD = "use methods of attention itself (rollout, flow), or references=('value_path',)"


@dataclass(frozen=True, eq=False)
class _Sum:
    """A sum that was found again, on some rows."""

    branch: FrozenNorm | None
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
    found: list[Joined | CaptureError] = []
    streams = [call.states]
    for record in records:
        if not streams:
            found.append(CaptureError(f"{record.module} is one of several attention calls of its block; {_INSTEAD}"))
            continue
        tried = [_joined(record, replace(call, states=states)) for states in streams]
        one, end = next((each for each in tried if isinstance(each[0], Joined)), tried[0])
        # In a block that attends again, what is normed at its end is another sum.
        again = isinstance(one, Joined) and record is not records[-1]
        found.append(replace(one, last=None) if again and isinstance(one, Joined) else one)
        streams = [] if end is None else [states.reshape(call.states.shape) for states in (end.left, end.entered)]
    return found


def _joined(record: Record, call: BlockCall) -> tuple[Joined | CaptureError, NormCall | None]:
    """Of one record, and the norm that the sum enters."""
    if record.projection is None or record.values is None:
        return CaptureError(f"no output projection was seen behind the attention of {record.module}; {_INSTEAD}"), None
    bias = record.projection.new_zeros(len(record.projection)) if record.bias is None else record.bias
    with switched(gradients=False), full_precision(call.states.device.type):
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
                torch.cat([all_keys(one.rows(row, row + 1), one.mask.length) for row in rows], 1)
                for one in record.computed
            ]
        )
    mixed = weights @ per_query_head(record.values, weights.shape[1]).to(weights)
    return mixed.transpose(1, 2).flatten(2) @ record.projection.to(weights).T + bias.to(weights), rows


def _sums(call: BlockCall, attended: Tensor, rows: list[int] | slice) -> Iterator[_Sum]:
    """Every way to see the sum again, each with its miss, the plainest first."""

    def seen(tensor: Tensor) -> Tensor:
        return tensor.reshape(call.states.shape)[:, rows].to(attended)

    states = seen(call.states)
    branches: list[tuple[FrozenNorm | None, Tensor, NormCall | None]] = [(None, attended, None)]
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
    constants = FrozenNorm(gain, ones, torch.zeros_like(gain), False)
    return _Sum(constants, end, miss(attended * gain + met - added, met), met)


def _behind(call: BlockCall, end: NormCall | None) -> tuple[FrozenNorm | None, FrozenNorm | None]:
    """The norm that the sum enters and the one that the block ends with, where the block ends with one."""
    if end is None or call.left is None or call.left.numel() != call.states.numel():
        return None, None
    left = call.left.reshape(-1)
    last = next((norm for norm in reversed(call.norms) if torch.equal(norm.left.reshape(-1), left)), None)
    if last is None:
        return None, None
    return frozen_norm(end, call.states), None if last is end else frozen_norm(last, call.states)


def frozen_norm(call: NormCall, like: Tensor) -> FrozenNorm | None:
    """The norm as the linear map that it was: of all that a norm may be, what gives its output; None if nothing does.

    The scale is read off the output, so that no ε need be known.
    """
    entered, left = (one.reshape(like.shape).double() for one in (call.entered, call.left))
    gain, *further = (one.double() for one in parameters_of(call.module))
    shift = further[0] if further else torch.zeros_like(gain)
    if gain.shape != like.shape[-1:] or shift.shape != gain.shape:
        return None
    best, miss = None, float(left.abs().max()) * _slack(like.dtype, lenient=True)
    for centred in (True, False):
        for factor in (gain, 1 + gain):  # Gemma's weight is what is added to 1
            unscaled = FrozenNorm(factor, left.new_ones(()), shift, centred).unscaled(entered)
            size = unscaled.square().sum(-1).clamp(min=torch.finfo(torch.float64).tiny)
            scale = (unscaled * (left - shift)).sum(-1) / size
            off = float((unscaled * scale[..., None] + shift - left).abs().max())
            if off <= miss:
                best, miss = FrozenNorm(factor, scale, shift, centred), off
    return best


def miss(sums: Tensor, seen: Tensor) -> float:
    """By how much a row is off, as a share of its largest number: single rows are thousands of times larger."""
    size = seen.abs().amax(-1).clamp(min=torch.finfo(seen.dtype).tiny)
    return float(((sums - seen).abs().amax(-1) / size).max())


def _slack(dtype: torch.dtype, branch: FrozenNorm | None = None, *, lenient: bool = False) -> float:
    """Many models compute their norms in single precision, whatever their weights are."""
    if dtype == torch.float64 and branch is None and not lenient:
        return _EXACT
    return TOLERANCE.get(dtype, 1e-4)
