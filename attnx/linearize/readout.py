"""How an answer is read off the residual stream: its gradient where the last block ends, with what follows frozen.

    score = Σ_i w_i · x_i + constants

x_i is what leaves the last block at position i, w_i the gradient there. The final norm's scale is held at what it was,
as on the value path, so this is a sum and not a tangent. No more than the head is gone back through: blocks keep
nothing, so a long input costs one run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attnx.errors import CaptureError
from attnx.hooks import ModuleObserver, active_mode, eval_mode
from attnx.linearize.mode import LRP
from attnx.linearize.rules import linearize_mode
from attnx.linearize.run import Scores, check_linearizable

_SLACK = {torch.float64: 1e-5, torch.float32: 1e-3}
"""As for a frozen run: many models compute their norms in single precision, whatever their weights are."""

_INSTEAD = "use references=('lrp',)"


@dataclass(frozen=True, eq=False)
class Readout:
    """The answer of one input as a sum over what leaves the last block."""

    states: Tensor
    """position × width."""
    gradient: Tensor
    """position × width: 0 where the answer is not read."""
    score: float


def readouts(model: nn.Module, scores: Scores, *, block: nn.Module) -> list[Readout]:
    """Run `scores` on one input; each answer is read off what `block` gives when it is last called."""
    check_linearizable(model)
    mode = linearize_mode(model, LRP, torch.empty(0))
    left: list[Tensor] = []

    def leave(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any) -> Any:
        """Let gradients begin here."""
        sequence = output[0] if isinstance(output, (tuple, list)) else output
        if not isinstance(sequence, Tensor):
            return None
        left[:] = [mode.enter(sequence)]
        return type(output)((left[0], *output[1:])) if isinstance(output, (tuple, list)) else left[0]

    with eval_mode(model, gradients=True):
        with ModuleObserver([block], lambda *_: None, leave), active_mode(mode):
            reached = scores()
        mode.forget()
        if not left or not reached.requires_grad:
            raise CaptureError(
                f"{type(model).__name__} gives no gradient of its answer by what leaves its last block: its head is "
                f"quantised, or reads something else; {_INSTEAD}, or rollout"
            )
        result = []
        for way in torch.split(reached, 1):
            mode.begin_way_back()
            (gradient,) = torch.autograd.grad(way.double().sum(), left, retain_graph=True)
            readout = Readout(left[0].detach()[0], gradient[0], float(way.detach()))
            _check_sum(readout, mode.constants.total, mode.constants.size, type(model).__name__)
            result.append(readout)
    return result


def _check_sum(found: Readout, constants: float, size: float, name: str) -> None:
    parts = (found.states.double() * found.gradient.double()).sum(-1)
    halved = torch.is_autocast_enabled(found.states.device.type)
    slack = (5e-2 if halved else _SLACK.get(found.states.dtype, 5e-2)) * (
        float(parts.abs().sum()) + abs(found.score) + size
    )
    if abs(float(parts.sum()) + constants - found.score) > slack:
        raise CaptureError(
            f"what leaves the last block of {name} does not add up to the answer ({float(parts.sum()) + constants:.6g} "
            f"of {found.score:.6g}): its head does something that cannot be frozen; use "
            "references=('integrated_gradients',)"
        )
