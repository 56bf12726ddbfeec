"""The frozen run: once forward as the model is, once back through the frozen model (see `mode`), and its checks.

The frozen model is affine in the embeddings. So embedding times gradient, summed over the width, is what a position
adds to the score, and with the biases positions add up to it. `lrp`, `attn_lrp` and all that needs gradients
at the ends of attention share this run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.errors import CaptureError
from attnx.hooks import (
    Entry,
    ModuleObserver,
    active_mode,
    eval_mode,
    grad_mode,
    missing_gradient_reason,
    needs_interface,
)
from attnx.linearize.autograd import CHANGED
from attnx.linearize.checkpointing import KEPT, NotAgainError, Replaying
from attnx.linearize.matmul import QuickMaps
from attnx.linearize.mode import Constants, Function, Kernel, LinearizeMode, Lookup, Path
from attnx.linearize.rules import linearize_mode

_UNSUPPORTED_SLACK = 1e-2


def first_unsupported_op(model: nn.Module, scores: Callable[[], Any], path: Path, entry: Entry) -> str:
    """The first operation that does not add up, and its module, in a few words."""
    mode = linearize_mode(model, path, entry, made=_Trying)
    assert isinstance(mode, _Trying)
    with eval_mode(model, gradients=True), active_mode(mode):
        scores()
    mode.forget()
    if mode.found is None:
        return "the model computes something outside of torch's functions, or changes a tensor in place"
    module, operation = mode.found
    return f"{operation} in {module or 'the model'} is not covered"


class _Trying(LinearizeMode):
    found: tuple[str, str] | None = None

    def untold(self, func: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if self.found is None and func.__name__[-1:] != "_" and not self._is_linear(func, args, kwargs):
            self.found = (self.caller(), getattr(func, "__name__", repr(func)))
        return super().untold(func, args, kwargs)

    def _is_linear(self, func: Function, args: list[Any], kwargs: dict[str, Any]) -> bool:
        moving = [tensor for tensor in _tensors((args, kwargs)) if tensor.requires_grad]
        if not moving or not torch.is_grad_enabled():
            return True
        copies = {id(tensor): tensor.detach().clone().requires_grad_() for tensor in moving}
        given, named = _with_copies(args, copies), _with_copies(kwargs, copies)
        results = [tensor for tensor in _tensors(func(*given, **named)) if tensor.requires_grad]
        if not results:
            return True
        generator = torch.Generator().manual_seed(0)
        directions = [torch.randn(result.shape, generator=generator).to(result) for result in results]
        slopes = torch.autograd.grad(results, list(copies.values()), directions, allow_unused=True)
        given_out = [(result.detach() * way).double() for result, way in zip(results, directions, strict=True)]
        carried = [
            copy.detach() * slope for copy, slope in zip(copies.values(), slopes, strict=True) if slope is not None
        ]
        missing = sum(float(tensor.sum()) for tensor in given_out) - sum(float(tensor.sum()) for tensor in carried)
        return abs(missing) <= _UNSUPPORTED_SLACK * sum(float(tensor.abs().sum()) for tensor in given_out)


def _tensors(given: Any) -> list[Tensor]:
    if isinstance(given, Tensor):
        return [given]
    inner = given.values() if isinstance(given, dict) else given if isinstance(given, (list, tuple)) else ()
    return [tensor for one in inner for tensor in _tensors(one)]


def _with_copies(given: Any, copies: dict[int, Tensor]) -> Any:
    if isinstance(given, Tensor):
        return copies.get(id(given), given)
    if isinstance(given, dict):
        return {name: _with_copies(one, copies) for name, one in given.items()}
    return type(given)(_with_copies(one, copies) for one in given) if type(given) in (list, tuple) else given


_SLACK = {torch.float64: 1e-5, torch.float32: 1e-3}
"""How far sums may be off by rounding, as a share of all that is summed; much less is usual.

Many models compute their norms in float32, whatever their weights are."""

_HALF_PRECISION = 5e-2

_NOTHING = 1e-6
"""A score that is 0 but for rounding has no size beside which to see it."""

Scores = Callable[[], Tensor]
"""Runs the model on a batch and gives one score for each input."""

EachScore = Callable[[], Sequence[Tensor]]
"""Runs the model on one input and gives several scores, each of which has a way back of its own."""


@dataclass(frozen=True, eq=False)
class Entered:
    """What enters a block, batch × position × width, and the score's gradient there."""

    module: str
    states: Tensor
    gradient: Tensor

    @cached_property
    def relevance(self) -> Tensor:
        """batch × position: what each position holds of the score when it enters the block."""
        return (self.states.double() * self.gradient.double()).sum(-1)


@dataclass(frozen=True, eq=False)
class LinearizedRun:
    """One run of a batch."""

    scores: Tensor
    """One for each input."""
    entry: Entered
    """Token embeddings; for an image what enters the first block, or its pixels where no block is seen."""
    kernels: tuple[Kernel, ...]
    layers: tuple[Entered, ...]
    constants: float | None
    """What biases add to all scores together, from their own gradients; None where a path does not add up."""
    again: int = 0
    """Blocks that were run again on the way back instead of being kept."""
    notes: tuple[str, ...] = ()
    """What the user should know of how it was run."""
    entries: tuple[Entered, ...] = ()
    """What entered each of several streams, as it came; none where there is one."""


def linearized_run(
    model: nn.Module,
    scores: Scores,
    path: Path,
    *,
    entry: Entry,
    ends: slice | None = None,
    layers: bool = False,
    again: bool | None = None,
) -> LinearizedRun:
    """Run `scores` and go back along `path`.

    `entry` is the module that embeds tokens; or pixels, with a gradient: what enters the first block is read then. Of
    an encoder–decoder it is that of each stream, and positions are those of both.
    With `ends` attention calls are kept at these positions (`slice(None)` for all), with `layers` what enters each
    block. Of a long input blocks are run `again` on the way back instead of being kept (see `replay`); True and False
    say so of any input. The model is left as it was; its answer is checked against a plain run, whose linear maps go by
    the quicker library, too, and the sum against the score.
    """
    return _run(_Asked(model, lambda: (scores(),), path, entry, ends, layers), again)


def linearized_runs(
    model: nn.Module,
    scores: EachScore,
    path: Path,
    *,
    entry: Entry,
    ends: slice | None = None,
    layers: bool = False,
    again: bool | None = None,
    after: Callable[[int], Any] = lambda count: None,
) -> LinearizedRun:
    """The same for several scores of one input: once there, and back for each score in turn.

    What comes out is that of a batch in which the input stands as often as it has scores. `after` each way back is
    called with 1.
    """
    return _run(_Asked(model, scores, path, entry, ends, layers, often=True, after=after), again)


@dataclass(frozen=True, eq=False)
class _Asked:
    """What is asked of a run."""

    model: nn.Module
    ways: EachScore
    """Gives the scores of one way back, or of each of several."""
    path: Path
    entry: Entry
    ends: slice | None
    layers: bool = False
    often: bool = False
    """Whether there may be many ways back, and what they share is worth keeping."""
    after: Callable[[int], Any] = lambda count: None


def _run(asked: _Asked, again: bool | None) -> LinearizedRun:
    check_linearizable(asked.model)
    with grad_mode(gradients=True):
        with eval_mode(asked.model), active_mode(QuickMaps()):
            plain = torch.cat(list(asked.ways()))
        try:
            ways = _there_and_back(asked, again)
        except NotAgainError as error:
            notes = (f"{error}, {KEPT}",)
            ways = [(replace(run, notes=notes), constants) for run, constants in _there_and_back(asked, False)]
        except RuntimeError as error:
            if CHANGED not in str(error):
                raise
            raise CaptureError(
                f"{type(asked.model).__name__} changes in place what it has computed with before, so that its gradient "
                f"cannot be computed by {asked.path.name}; use references=('blankout',)"
            ) from error
    for run, constants in ways:
        _check_sum(asked, run, constants)
    whole = _joined([run for run, _ in ways])
    _check_answer(asked.model, whole.scores, plain)
    return whole


def _there_and_back(asked: _Asked, again: bool | None) -> list[tuple[LinearizedRun, Constants]]:
    """Each way back, and what biases have of its score."""
    model, path, entry = asked.model, asked.path, asked.entry
    entered: dict[int, Tensor] = {}
    mode = linearize_mode(model, path, entry, entered=entered, ends=asked.ends, often=asked.often)
    noted = _blocks(model) if asked.layers or isinstance(entry, Tensor) else []
    replaying = Replaying(model, mode, again, layers=asked.layers, often=asked.often)
    # What enters a block is noted before it is taken out of the graph to be run again.
    with eval_mode(model, gradients=True), ModuleObserver(noted, _note(entered)), replaying:
        with active_mode(mode):
            ways = asked.ways()
        mode.forget()
        blocks = mode.layers
        inputs = [] if isinstance(entry, Tensor) and blocks else mode.entries
        tables = [("", lookup.rows) for sequence in inputs for lookup in sequence]
        seen = [*tables, *blocks]
        if not seen or not ways[0].requires_grad or (isinstance(entry, tuple) and len(inputs) != len(entry)):
            lost = mode.gradients.operation
            unseen = f"{type(model).__name__} embeds its input in a way that is not seen, so that it has no gradient"
            raise CaptureError(
                f"{missing_gradient_reason(model, lost) if lost else unseen}; use references=('blankout',)"
            )
        for _, tensor in tables or seen[:1]:
            mode.take_whole(tensor)
        notes, result = replaying.notes(seen[0][1]), []
        for number, way in enumerate(ways):
            mode.begin_way_back()
            gradients = torch.autograd.grad(
                way.double().sum(), [one for _, one in seen], allow_unused=True, retain_graph=number + 1 < len(ways)
            )
            made = [
                Entered(name, states.detach(), torch.zeros_like(states) if gradient is None else gradient)
                for (name, states), gradient in zip(seen, gradients, strict=True)
            ]
            total = mode.constants.total if path.conserves else None
            kernels, above = tuple(map(replace, mode.kernels)), made[len(tables) :]
            if inputs and above and inputs[0][0].turned(above[0].states):
                above = [
                    replace(one, states=one.states.transpose(0, 1), gradient=one.gradient.transpose(0, 1))
                    for one in above
                ]
            parts = iter(made)
            sequences = tuple(_of_stream([(lookup, next(parts)) for lookup in sequence]) for sequence in inputs)
            own = _beside(sequences, entry) if isinstance(entry, tuple) else sequences[0] if sequences else made[0]
            sequences = sequences if isinstance(entry, tuple) else ()
            run = LinearizedRun(way.detach(), own, kernels, tuple(above), total, replaying.calls, notes, sequences)
            result.append((run, mode.constants))
            asked.after(1)
    lost = mode.gradients.operation
    if lost is not None:  # positions may add up all the same, for what has no gradient counts as a constant
        raise CaptureError(f"{missing_gradient_reason(model, lost)}; use references=('blankout',), which needs none")
    return result


def _of_stream(tables: Sequence[tuple[Lookup, Entered]]) -> Entered:
    """What enters one stream through its tables, as that of one table that has the rows of all side by side."""
    laid = [
        replace(entered, states=lookup.laid(entered.states), gradient=lookup.laid(entered.gradient, add=True))
        for lookup, entered in tables
    ]
    if len(laid) == 1:
        return laid[0]
    shape = laid[0].states.shape[:-1]
    coarsest = max((one.states.dtype for one in laid), key=lambda dtype: torch.finfo(dtype).eps)  # sums are as exact
    states, gradient = (
        torch.cat([part.reshape(*shape, -1).to(coarsest) for part in parts], -1)
        for parts in ([one.states for one in laid], [one.gradient for one in laid])
    )
    return replace(laid[0], states=states, gradient=gradient)


def _beside(sequences: Sequence[Entered], entry: tuple[Any, ...]) -> Entered:
    """What enters several streams as that of one: batch × position × width, the narrower ones filled up with 0.

    Of a picture with a text it is one number after the other, and whose they are is asked of `entries`.
    """
    if any(isinstance(tensor, Tensor) and tensor.ndim != 3 for tensor in entry):
        states, gradient = (
            torch.cat([part.flatten().double() for part in parts])[None, :, None]
            for parts in ([sequence.states for sequence in sequences], [sequence.gradient for sequence in sequences])
        )
        return Entered("", states, gradient)
    # What is no embedding came as batch × channel × frame, and frames are what positions are made of.
    laid = [
        replace(sequence, states=sequence.states.transpose(1, 2), gradient=sequence.gradient.transpose(1, 2))
        if isinstance(given, Tensor)
        else sequence
        for sequence, given in zip(sequences, entry, strict=True)
    ]
    width = max(one.states.shape[-1] for one in laid)
    states, gradient = (
        torch.cat([F.pad(part, (0, width - part.shape[-1])) for part in parts], dim=1)
        for parts in ([one.states for one in laid], [one.gradient for one in laid])
    )
    return Entered("", states, gradient)


def _joined(ways: list[LinearizedRun]) -> LinearizedRun:
    """Several ways back as those of one batch."""
    first = ways[0]
    if len(ways) == 1:
        return first
    return replace(
        first,
        scores=torch.cat([one.scores for one in ways]),
        entry=_joined_states([one.entry for one in ways]),
        kernels=tuple(map(_joined_kernel, zip(*(one.kernels for one in ways), strict=True))),
        layers=tuple(map(_joined_states, zip(*(one.layers for one in ways), strict=True))),
        constants=None if first.constants is None else sum(one.constants or 0.0 for one in ways),
        entries=tuple(map(_joined_states, zip(*(one.entries for one in ways), strict=True))),
    )


def _joined_states(several: Sequence[Entered]) -> Entered:
    gradient, states = torch.cat([one.gradient for one in several]), several[0].states
    if len(states) > 1:  # tiles of one picture
        return Entered(several[0].module, torch.cat([states] * len(several)), gradient)
    return Entered(several[0].module, states.expand_as(gradient), gradient)


def _joined_kernel(several: Sequence[Kernel]) -> Kernel:
    first = several[0]
    return Kernel(
        first.module,
        torch.cat([kernel.values for kernel in several]),
        torch.cat([kernel.outputs for kernel in several]),
        _stacked([kernel.values_gradient for kernel in several], first.values),
        _stacked([kernel.outputs_gradient for kernel in several], first.outputs),
    )


def _stacked(gradients: Sequence[Tensor | None], like: Tensor) -> Tensor | None:
    """Those that came; 0 where none did, unless none did at all."""
    if all(gradient is None for gradient in gradients):
        return None
    return torch.cat([torch.zeros_like(like) if gradient is None else gradient for gradient in gradients])


def _blocks(model: nn.Module) -> list[nn.Module]:
    """The elements of the model's lists of modules."""
    return list(
        {id(module): module for each in model.modules() if isinstance(each, nn.ModuleList) for module in each}.values()
    )


def _note(entered: dict[int, Tensor]) -> Callable[..., None]:
    """Notes with what each block is called."""

    def note(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        states = next((argument for argument in (*args, *kwargs.values()) if isinstance(argument, Tensor)), None)
        if states is not None and states.requires_grad and states.ndim == 3:
            entered[id(module)] = states

    return note


def supports_gradients(model: nn.Module) -> bool:
    """Whether gradients can be followed back through the model."""
    return not needs_interface(model) and not any(parameter.is_inference() for parameter in model.parameters())


def check_linearizable(model: nn.Module) -> None:
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


def _check_sum(asked: _Asked, run: LinearizedRun, constants: Constants) -> None:
    if not asked.path.conserves or _adds_up(run, constants):
        return
    raise CaptureError(
        f"{type(asked.model).__name__}: positions and biases do not add up to the score "
        f"({float(run.entry.relevance.sum()) + constants.total:.6g} of {float(run.scores.sum()):.6g}), for "
        f"{first_unsupported_op(asked.model, asked.ways, asked.path, asked.entry)}; use "
        "references=('integrated_gradients',)"
    )


def _adds_up(run: LinearizedRun, constants: Constants) -> bool:
    parts = run.entry.relevance
    size = float(parts.abs().sum() + run.scores.abs().sum()) + constants.size + _NOTHING
    slack = _slack(run.entry.states)
    return abs(float(parts.sum()) + constants.total - float(run.scores.double().sum())) <= slack * size


def _slack(numbers: Tensor) -> float:
    """Under autocast numbers of full precision were computed in half of it."""
    halved = torch.is_autocast_enabled(numbers.device.type)
    return _HALF_PRECISION if halved else _SLACK.get(numbers.dtype, _HALF_PRECISION)
