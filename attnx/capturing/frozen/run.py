"""The frozen run: once forward as the model is, once back through the frozen model (see `mode`), and its checks.

The frozen model is affine in the embeddings. So embedding times gradient, summed over the width, is what a position
adds to the score, and with the biases positions add up to it. `value_path`, `whole_path` and all that needs gradients
at the ends of attention share this run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attnx.capturing.frozen.mode import Constants, Kernel
from attnx.capturing.frozen.path import Path
from attnx.capturing.frozen.replay import KEPT, NotAgainError, Replaying
from attnx.capturing.frozen.rules import freezing
from attnx.capturing.frozen.uncovered import first_uncovered
from attnx.capturing.interface import needs_interface
from attnx.capturing.untouched import Hooked, looking_on, switched
from attnx.capturing.watch import undisturbed
from attnx.errors import CaptureError

_SLACK = {torch.float64: 1e-5, torch.float32: 1e-3}
"""How far sums may be off by rounding, as a share of all that is summed; much less is usual.

Many models compute their norms in float32, whatever their weights are."""

_HALF_PRECISION = 5e-2

_NOTHING = 1e-6
"""A score that is 0 but for rounding has no size beside which to see it."""

Scores = Callable[[], Tensor]
"""Runs the model on a batch and gives one score for each input."""


@dataclass(frozen=True, eq=False)
class Entered:
    """What enters a block, batch × position × width, and the score's gradient there."""

    module: str
    states: Tensor
    gradient: Tensor

    @property
    def relevance(self) -> Tensor:
        """batch × position: what each position holds of the score when it enters the block."""
        return (self.states.double() * self.gradient.double()).sum(-1)


@dataclass(frozen=True, eq=False)
class FrozenRun:
    """One run of a batch."""

    scores: Tensor
    """One for each input."""
    entry: Entered
    """Token embeddings; for an image what enters the first block, or its pixels where no block is seen."""
    kernels: tuple[Kernel, ...]
    levels: tuple[Entered, ...]
    constants: float | None
    """What biases add to all scores together, from their own gradients; None where a path does not add up."""
    again: int = 0
    """Blocks that were run again on the way back instead of being kept."""
    notes: tuple[str, ...] = ()
    """What the user should know of how it was run."""


def frozen_run(
    model: nn.Module,
    scores: Scores,
    path: Path,
    *,
    entry: nn.Module | Tensor,
    ends: slice | None = None,
    levels: bool = False,
    again: bool | None = None,
) -> FrozenRun:
    """Run `scores` and go back along `path`.

    `entry` is the module that embeds tokens; or pixels, with a gradient: what enters the first block is read then.
    With `ends` attention calls are kept at these positions (`slice(None)` for all), with `levels` what enters each
    block. Of a long input blocks are run `again` on the way back instead of being kept (see `replay`); True and False
    say so of any input. The model is left as it was; its answer is checked against a plain run, and the sum against the
    score.
    """
    check_can_be_frozen(model)
    with switched(gradients=True):
        with undisturbed(model):
            plain = scores()
        ask = partial(_there_and_back, model, scores, path, entry, ends, levels)
        try:
            run, constants = ask(again)
        except NotAgainError as error:
            run, constants = ask(False)
            run = replace(run, notes=(f"{error}, {KEPT}",))
    _check_answer(model, run.scores, plain)
    if path.conserves and not _adds_up(run, constants):
        raise CaptureError(
            f"{type(model).__name__}: positions and biases do not add up to the score "
            f"({float(run.entry.relevance.sum()) + constants.total:.6g} of {float(run.scores.sum()):.6g}), for "
            f"{first_uncovered(model, scores, path, entry)}; use references=('integrated_gradients',)"
        )
    return run


def _there_and_back(
    model: nn.Module,
    scores: Scores,
    path: Path,
    entry: nn.Module | Tensor,
    ends: slice | None,
    levels: bool,
    again: bool | None,
) -> tuple[FrozenRun, Constants]:
    entered: dict[int, Tensor] = {}
    mode = freezing(model, path, entry, entered=entered, ends=ends)
    noted = _blocks(model) if levels or isinstance(entry, Tensor) else []
    replaying = Replaying(model, mode, again, levels=levels)
    # What enters a block is noted before it is taken out of the graph to be run again.
    with undisturbed(model, gradients=True), Hooked(noted, _note(entered)), replaying:
        with looking_on(mode):
            reached = scores()
        mode.forget()
        blocks = mode.levels
        inputs = [] if isinstance(entry, Tensor) and blocks else [("", one) for one in mode.leaves]
        seen = [*inputs, *blocks]
        if not seen or not reached.requires_grad:
            raise CaptureError(
                f"{type(model).__name__} gives no gradient of its answer by its input: it is quantised, or embeds its "
                "input in a way that is not seen; use references=('blankout',)"
            )
        mode.take_whole(seen[0][1])
        gradients = torch.autograd.grad(reached.double().sum(), [states for _, states in seen], allow_unused=True)
    made = [
        Entered(name, states.detach(), torch.zeros_like(states) if gradient is None else gradient)
        for (name, states), gradient in zip(seen, gradients, strict=True)
    ]
    total = mode.constants.total if path.conserves else None
    above = tuple(made[len(inputs) :])
    notes = replaying.notes(made[0].states)
    run = FrozenRun(reached.detach(), made[0], tuple(mode.kernels), above, total, replaying.calls, notes)
    return run, mode.constants


def _blocks(model: nn.Module) -> list[nn.Module]:
    """The elements of the model's lists of modules."""
    return list({id(one): one for each in model.modules() if isinstance(each, nn.ModuleList) for one in each}.values())


def _note(entered: dict[int, Tensor]) -> Callable[..., None]:
    """Notes with what each block is called in this thread."""
    thread = threading.get_ident()

    def note(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if threading.get_ident() == thread:
            states = next((one for one in (*args, *kwargs.values()) if isinstance(one, Tensor)), None)
            if states is not None and states.requires_grad and states.ndim == 3:
                entered[id(module)] = states

    return note


def can_be_gone_back(model: nn.Module) -> bool:
    """Whether gradients can be followed back through the model."""
    return not needs_interface(model) and not any(parameter.is_inference() for parameter in model.parameters())


def check_can_be_frozen(model: nn.Module) -> None:
    """Refuse what has no gradients, with the line that helps."""
    if needs_interface(model):
        raise CaptureError(
            f"{type(model).__name__} computes attention by {model.config._attn_implementation}, into which gradients "  # type: ignore[union-attr]
            "cannot be followed; load it with attn_implementation='sdpa'"
        )
    if any(parameter.is_inference() for parameter in model.parameters()):
        raise CaptureError(
            f"{type(model).__name__} was loaded in inference mode, so it has no gradients; load it outside of it, or "
            "use references=('blankout',)"
        )


def _check_answer(model: nn.Module, frozen: Tensor, plain: Tensor) -> None:
    slack = _slack(plain)
    if not torch.allclose(frozen, plain, rtol=slack, atol=slack):
        raise CaptureError(
            f"{type(model).__name__} gave another score while its gradients were frozen than in a plain run "
            f"(difference {float((frozen - plain).abs().amax()):.2g}): it is not deterministic in evaluation mode, or "
            "attnx does not fit it; please report the model"
        )


def _adds_up(run: FrozenRun, constants: Constants) -> bool:
    parts = run.entry.relevance
    size = float(parts.abs().sum() + run.scores.abs().sum()) + constants.size + _NOTHING
    slack = _slack(run.entry.states)
    return abs(float(parts.sum()) + constants.total - float(run.scores.double().sum())) <= slack * size


def _slack(numbers: Tensor) -> float:
    """Under autocast numbers of full precision were computed in half of it."""
    halved = torch.is_autocast_enabled(numbers.device.type)
    return _HALF_PRECISION if halved else _SLACK.get(numbers.dtype, _HALF_PRECISION)
