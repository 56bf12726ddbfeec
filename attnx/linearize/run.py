"""A linearized run: forward as the model is, backward through the linearized model (see `mode`), and its checks.

The linearized model is affine in the embeddings. So embedding times gradient, summed over the width, is what a position
adds to the score, and with the biases positions add up to it. `lrp`, `attn_lrp`, the readout of the last block's output
and all that needs gradients of attention share this run.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.errors import CaptureError
from attnx.hooks import (
    Entry,
    Function,
    ModuleObserver,
    active_mode,
    eval_mode,
    grad_mode,
    listed_modules,
    missing_gradient_reason,
    needs_interface,
    tensors_in,
)
from attnx.linearize.autograd import CHANGED
from attnx.linearize.checkpointing import KEPT, Checkpointing, NotRepeatableError
from attnx.linearize.matmul import OneDnnMode
from attnx.linearize.mode import LRP, Constants, Kernel, LinearizeMode, Lookup, Path
from attnx.linearize.rules import linearize_mode

_TOLERANCE = {torch.float64: 1e-5, torch.float32: 1e-3}
"""How far sums may be off by rounding, as a share of all that is summed; much less is usual.

Many models compute their norms in float32, whatever their weights are."""
_HALF_PRECISION = 5e-2
_NOTHING = 1e-6
"""A score that is 0 but for rounding has no size to compare it with."""

Scores = Callable[[], Tensor]
"""Runs the model on a batch and gives one score for each input."""

EachScore = Callable[[], Sequence[Tensor]]
"""Runs the model on one input and gives several scores, each with a backward pass of its own."""


@dataclass(frozen=True, eq=False)
class RelevanceAt:
    """What enters a block, batch × position × width, and the score's gradient there."""

    module: str
    states: Tensor
    gradient: Tensor

    @cached_property
    def relevance(self) -> Tensor:
        """batch × position: the share of the score that each position holds there."""
        return (self.states.double() * self.gradient.double()).sum(-1)

    def transposed(self, *axes: int) -> RelevanceAt:
        return replace(self, states=self.states.transpose(*axes), gradient=self.gradient.transpose(*axes))


@dataclass(frozen=True, eq=False)
class LinearizedRun:
    """One run of a batch."""

    scores: Tensor
    """One for each input."""
    entry: RelevanceAt
    """Token embeddings; for an image what enters the first block, or its pixels where no block is seen."""
    kernels: tuple[Kernel, ...]
    layers: tuple[RelevanceAt, ...]
    constants: float | None
    """What biases add to all scores together, from their own gradients; None where a path does not add up."""
    checkpoints: int = 0
    """Blocks that were run again in backward instead of being kept."""
    notes: tuple[str, ...] = ()
    """What the user should know of how it was run."""
    entries: tuple[RelevanceAt, ...] = ()
    """What entered each of several sequences, as it came; none where there is one."""


def linearized_run(model: nn.Module, scores: Scores, path: Path, *, entry: Entry, **options: Any) -> LinearizedRun:
    """Run `scores` and go back along `path`; the options are those of `linearized_runs`."""
    return linearized_runs(model, lambda: (scores(),), path, entry=entry, repeated=False, **options)


def linearized_runs(
    model: nn.Module,
    scores: EachScore,
    path: Path,
    *,
    entry: Entry,
    ends: slice | None = None,
    layers: bool = False,
    checkpoint: bool | None = None,
    repeated: bool = True,
    after: Callable[[int], Any] = lambda count: None,
) -> LinearizedRun:
    """One forward pass, and a backward pass for each score of one input; the result is that of a batch of them.

    `entry` is the module that embeds tokens; or pixels, with a gradient: then what enters the first block is read. Of
    an encoder–decoder it is that of each sequence, and positions are those of both.
    With `ends` attention calls are kept at these positions (`slice(None)` for all), with `layers` what enters each
    block. Of a long input blocks are run again in backward (see `checkpointing`); `checkpoint` True and False request
    it for any input. `after` each backward pass is called with 1. The model is left as it was; its score is checked
    against a plain run once for each kind of input, and the sum against the score always.
    """
    check_linearizable(model)
    backward = _Backward(model, scores, path, entry, ends, layers, repeated, after)
    with grad_mode(gradients=True):
        try:
            runs = backward.runs(checkpoint)
        except NotRepeatableError as error:
            notes = (f"{error}, {KEPT}",)
            runs = [(replace(run, notes=notes), constants) for run, constants in backward.runs(False)]
        except RuntimeError as error:
            if CHANGED not in str(error):
                raise
            raise CaptureError(
                f"{type(model).__name__} changes in place what it has computed with before, so that its gradient "
                f"cannot be computed by {path.name}; use methods=['blankout']"
            ) from error
    for run, constants in runs:
        if path.conserves and not _adds_up(run, constants):
            raise CaptureError(
                f"{type(model).__name__}: positions and biases do not add up to the score "
                f"({float(run.entry.relevance.sum()) + constants.total:.6g} of {float(run.scores.sum()):.6g}), for "
                f"{first_unsupported_op(model, scores, path, entry)}; use methods=['integrated_gradients']"
            )
    result = _as_batch([run for run, _ in runs])
    verified = _verified.setdefault(model, set())
    kind = path.name, _kind_of(entry), result.checkpoints > 0, result.entry.states.dtype, _slack(result.scores)
    if kind not in verified:
        _check_scores(model, scores, result.scores)
        verified.add(kind)
    return result


_verified: weakref.WeakKeyDictionary[nn.Module, set[tuple[Any, ...]]] = weakref.WeakKeyDictionary()
"""The paths and kinds of input for which a model's scores were compared with a plain run."""


def _kind_of(entry: Entry) -> tuple[Any, ...]:
    entries = entry if isinstance(entry, tuple) else (entry,)
    return tuple(part.ndim if isinstance(part, Tensor) else id(part) for part in entries)


def _check_scores(model: nn.Module, scores: EachScore, linearized: Tensor) -> None:
    with eval_mode(model), active_mode(OneDnnMode()):
        plain = torch.cat(list(scores()))
    slack = _slack(plain)
    if not torch.allclose(linearized, plain, rtol=slack, atol=slack):
        raise CaptureError(
            f"{type(model).__name__} gave another score while it was linearized than in a plain run "
            f"(difference {float((linearized - plain).abs().amax()):.2g}): it is not deterministic in evaluation "
            "mode, or attnx does not fit it; please report the model"
        )


@dataclass(frozen=True, eq=False)
class _Backward:
    """A forward pass, and a backward pass for each of its scores."""

    model: nn.Module
    scores: EachScore
    path: Path
    entry: Entry
    ends: slice | None
    layers: bool
    repeated: bool
    after: Callable[[int], Any]

    def runs(self, checkpoint: bool | None) -> list[tuple[LinearizedRun, Constants]]:
        """The run of each score, and what biases have of it."""
        model, entry = self.model, self.entry
        block_inputs: dict[int, Tensor] = {}
        options: dict[str, Any] = {"ends": self.ends, "repeated": self.repeated}
        mode = linearize_mode(model, self.path, entry, block_inputs=block_inputs, **options)
        blocks = listed_modules(model).values() if self.layers or isinstance(entry, Tensor) else ()
        checkpointing = Checkpointing(model, mode, checkpoint, layers=self.layers, repeated=self.repeated)
        # What enters a block is noted before it is taken out of the graph to be run again.
        observer = ModuleObserver(blocks, _keep_input(block_inputs))
        with eval_mode(model, gradients=True), observer, checkpointing:
            with active_mode(mode):
                scores = self.scores()
            mode.clear()
            sequences = [] if isinstance(entry, Tensor) and mode.layers else mode.entries
            tables = [("", lookup.rows) for sequence in sequences for lookup in sequence]
            inputs = [*tables, *mode.layers]
            lost_entry = isinstance(entry, tuple) and len(sequences) != len(entry)
            if not inputs or not scores[0].requires_grad or lost_entry:
                lost = mode.gradients.operation
                unseen = (
                    f"{type(model).__name__} embeds its input in a way that is not seen, so that it has no gradient"
                )
                raise CaptureError(
                    f"{missing_gradient_reason(model, lost) if lost else unseen}; use methods=['blankout']"
                )
            for _, tensor in tables or inputs[:1]:
                mode.count_as_input(tensor)
            notes, results = checkpointing.notes(inputs[0][1]), []
            for number, score in enumerate(scores):
                mode.begin_backward()
                gradients = torch.autograd.grad(
                    score.double().sum(),
                    [tensor for _, tensor in inputs],
                    allow_unused=True,
                    retain_graph=number + 1 < len(scores),
                )
                relevances = [
                    RelevanceAt(name, states.detach(), torch.zeros_like(states) if gradient is None else gradient)
                    for (name, states), gradient in zip(inputs, gradients, strict=True)
                ]
                run = self._run(mode, score, relevances, sequences)
                results.append((replace(run, checkpoints=checkpointing.calls, notes=notes), mode.constants))
                self.after(1)
        if mode.gradients.operation is not None:  # without its gradient a position counts as a constant, and adds up
            reason = missing_gradient_reason(model, mode.gradients.operation)
            raise CaptureError(f"{reason}; use methods=['blankout'], which needs none")
        return results

    def _run(
        self, mode: LinearizeMode, score: Tensor, relevances: list[RelevanceAt], sequences: list[list[Lookup]]
    ) -> LinearizedRun:
        layers = relevances[sum(map(len, sequences)) :]
        if sequences and layers and sequences[0][0].is_transposed(layers[0].states):
            layers = [layer.transposed(0, 1) for layer in layers]
        remaining = iter(relevances)
        entries = tuple(_of_sequence([(lookup, next(remaining)) for lookup in lookups]) for lookups in sequences)
        several = isinstance(self.entry, tuple)
        first = entries[0] if entries else relevances[0]
        return LinearizedRun(
            score.detach(),
            _of_sequences(entries, self.entry) if isinstance(self.entry, tuple) else first,
            kernels=tuple(map(replace, mode.kernels)),
            layers=tuple(layers),
            constants=mode.constants.total if self.path.conserves else None,
            entries=entries if several else (),
        )


def _keep_input(block_inputs: dict[int, Tensor]) -> Callable[..., None]:
    def keep(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        states = next((argument for argument in (*args, *kwargs.values()) if isinstance(argument, Tensor)), None)
        if states is not None and states.requires_grad and states.ndim == 3:
            block_inputs[id(module)] = states

    return keep


def _of_sequence(tables: Sequence[tuple[Lookup, RelevanceAt]]) -> RelevanceAt:
    """What enters one sequence through its tables, as that of one table that has the rows of all side by side."""
    parts = [
        replace(entry, states=lookup.by_input_id(entry.states), gradient=lookup.by_input_id(entry.gradient, add=True))
        for lookup, entry in tables
    ]
    if len(parts) == 1:
        return parts[0]
    shape = parts[0].states.shape[:-1]
    coarsest = max((part.states.dtype for part in parts), key=lambda dtype: torch.finfo(dtype).eps)  # sums are as exact

    def side_by_side(tensors: Sequence[Tensor]) -> Tensor:
        return torch.cat([tensor.reshape(*shape, -1).to(coarsest) for tensor in tensors], -1)

    return RelevanceAt(
        parts[0].module,
        side_by_side([part.states for part in parts]),
        side_by_side([part.gradient for part in parts]),
    )


def _of_sequences(sequences: Sequence[RelevanceAt], entry: tuple[Any, ...]) -> RelevanceAt:
    """What enters several sequences as that of one: batch × position × width, the narrower ones padded with 0.

    Of an image with a text it is one number after the other, and `entries` say whose they are.
    """
    if any(isinstance(tensor, Tensor) and tensor.ndim != 3 for tensor in entry):

        def joined(tensors: Sequence[Tensor]) -> Tensor:
            return torch.cat([tensor.flatten().double() for tensor in tensors])[None, :, None]

    else:
        # What is no embedding came as batch × channel × frame, and frames are what positions are made of.
        pairs = zip(sequences, entry, strict=True)
        sequences = [part.transposed(1, 2) if isinstance(tensor, Tensor) else part for part, tensor in pairs]
        width = max(part.states.shape[-1] for part in sequences)

        def joined(tensors: Sequence[Tensor]) -> Tensor:
            return torch.cat([F.pad(tensor, (0, width - tensor.shape[-1])) for tensor in tensors], dim=1)

    return RelevanceAt("", joined([part.states for part in sequences]), joined([part.gradient for part in sequences]))


def _as_batch(runs: list[LinearizedRun]) -> LinearizedRun:
    """Several backward passes as those of one batch."""
    first = runs[0]
    if len(runs) == 1:
        return first
    return replace(
        first,
        scores=torch.cat([run.scores for run in runs]),
        entry=_batched_relevance([run.entry for run in runs]),
        kernels=tuple(map(_batched_kernel, zip(*(run.kernels for run in runs), strict=True))),
        layers=tuple(map(_batched_relevance, zip(*(run.layers for run in runs), strict=True))),
        constants=None if first.constants is None else sum(run.constants or 0.0 for run in runs),
        entries=tuple(map(_batched_relevance, zip(*(run.entries for run in runs), strict=True))),
    )


def _batched_relevance(parts: Sequence[RelevanceAt]) -> RelevanceAt:
    gradient, states = torch.cat([part.gradient for part in parts]), parts[0].states
    tiles = len(states) > 1  # of one image
    return RelevanceAt(
        parts[0].module, torch.cat([states] * len(parts)) if tiles else states.expand_as(gradient), gradient
    )


def _batched_kernel(kernels: Sequence[Kernel]) -> Kernel:
    def batched(gradients: Sequence[Tensor | None], like: Tensor) -> Tensor | None:
        """0 where none came, unless none came at all."""
        if all(gradient is None for gradient in gradients):
            return None
        return torch.cat([torch.zeros_like(like) if gradient is None else gradient for gradient in gradients])

    first = kernels[0]
    return Kernel(
        first.module,
        torch.cat([kernel.values for kernel in kernels]),
        torch.cat([kernel.outputs for kernel in kernels]),
        batched([kernel.values_gradient for kernel in kernels], first.values),
        batched([kernel.outputs_gradient for kernel in kernels], first.outputs),
    )


def supports_gradients(model: nn.Module) -> bool:
    """Whether gradients can go back through the model."""
    return not needs_interface(model) and not any(parameter.is_inference() for parameter in model.parameters())


def check_linearizable(model: nn.Module) -> None:
    """Refuse what has no gradients, with the line that helps."""
    if needs_interface(model):
        raise CaptureError(
            f"{type(model).__name__} computes attention by {model.config._attn_implementation}, into which gradients "  # type: ignore[union-attr]
            "cannot be followed; load it with attn_implementation='sdpa'"
        )
    if not supports_gradients(model):
        raise CaptureError(
            f"{type(model).__name__} was loaded in inference mode, so it has no gradients; load it outside of it, or "
            "use methods=['blankout']"
        )


def _adds_up(run: LinearizedRun, constants: Constants) -> bool:
    parts = run.entry.relevance
    size = float(parts.abs().sum() + run.scores.abs().sum()) + constants.size + _NOTHING
    missing = float(parts.sum()) + constants.total - float(run.scores.double().sum())
    return abs(missing) <= _slack(run.entry.states) * size


def _slack(numbers: Tensor) -> float:
    """Under autocast numbers of full precision were computed in half of it."""
    half = torch.is_autocast_enabled(numbers.device.type)
    return _HALF_PRECISION if half else _TOLERANCE.get(numbers.dtype, _HALF_PRECISION)


_UNSUPPORTED = 1e-2


def first_unsupported_op(model: nn.Module, scores: Callable[[], Any], path: Path, entry: Entry) -> str:
    """The first operation that does not add up, and its module, in a few words."""
    mode = linearize_mode(model, path, entry, mode=_FindUnsupported)
    assert isinstance(mode, _FindUnsupported)
    with eval_mode(model, gradients=True), active_mode(mode):
        scores()
    mode.clear()
    if mode.operation is None:
        return "the model computes something outside of torch's functions, or changes a tensor in place"
    module, operation = mode.operation
    return f"{operation} in {module or 'the model'} is not covered"


class _FindUnsupported(LinearizeMode):
    operation: tuple[str, str] | None = None

    def without_rule(self, func: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if self.operation is None and func.__name__[-1:] != "_" and not self._is_linear(func, args, kwargs):
            self.operation = (self.caller(), getattr(func, "__name__", repr(func)))
        return super().without_rule(func, args, kwargs)

    def _is_linear(self, func: Function, args: list[Any], kwargs: dict[str, Any]) -> bool:
        tensors = [tensor for tensor in tensors_in((args, kwargs)) if tensor.requires_grad]
        if not tensors or not torch.is_grad_enabled():
            return True
        copies = {id(tensor): tensor.detach().clone().requires_grad_() for tensor in tensors}
        args, kwargs = _with_copies(args, copies), _with_copies(kwargs, copies)
        results = [tensor for tensor in tensors_in(func(*args, **kwargs)) if tensor.requires_grad]
        if not results:
            return True
        generator = torch.Generator().manual_seed(0)
        directions = [torch.randn(result.shape, generator=generator).to(result) for result in results]
        slopes = torch.autograd.grad(results, list(copies.values()), directions, allow_unused=True)
        outputs = [(result.detach() * way).double() for result, way in zip(results, directions, strict=True)]
        pairs = zip(copies.values(), slopes, strict=True)
        inputs = [copy.detach() * slope for copy, slope in pairs if slope is not None]
        missing = sum(float(tensor.sum()) for tensor in outputs) - sum(float(tensor.sum()) for tensor in inputs)
        return abs(missing) <= _UNSUPPORTED * sum(float(tensor.abs().sum()) for tensor in outputs)


def _with_copies(nested: Any, copies: dict[int, Tensor]) -> Any:
    if isinstance(nested, Tensor):
        return copies.get(id(nested), nested)
    if isinstance(nested, dict):
        return {name: _with_copies(value, copies) for name, value in nested.items()}
    return type(nested)(_with_copies(value, copies) for value in nested) if type(nested) in (list, tuple) else nested


@dataclass(frozen=True, eq=False)
class Readout:
    """The score of one input as a sum over the output of the last block: Σ_i w_i · x_i + constants.

    The final norm's scale is held at what it was, so this is a sum and not a tangent.
    """

    states: Tensor
    """position × width: x."""
    gradient: Tensor
    """position × width: w, 0 where the score is not read."""
    score: float


def readouts(model: nn.Module, scores: Scores, *, block: nn.Module) -> list[Readout]:
    """Run `scores` on one input; each is read off what `block` gives when it is last called.

    Backward passes go through the head alone: blocks keep nothing, so a long input costs one forward pass.
    """
    check_linearizable(model)
    mode = linearize_mode(model, LRP, torch.empty(0))
    leaves: list[Tensor] = []

    def begin_graph(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any) -> Any:
        states = output[0] if isinstance(output, (tuple, list)) else output
        if not isinstance(states, Tensor):
            return None
        leaves[:] = [mode.enter(states)]
        return type(output)((leaves[0], *output[1:])) if isinstance(output, (tuple, list)) else leaves[0]

    with eval_mode(model, gradients=True):
        with ModuleObserver([block], lambda *_: None, begin_graph), active_mode(mode):
            reached = scores()
        mode.clear()
        if not leaves or not reached.requires_grad:
            raise CaptureError(
                f"{type(model).__name__} gives no gradient of its answer by what leaves its last block: its head is "
                "quantised, or reads something else; use methods=['lrp'], or rollout"
            )
        results = []
        for score in torch.split(reached, 1):
            mode.begin_backward()
            (gradient,) = torch.autograd.grad(score.double().sum(), leaves, retain_graph=True)
            readout = Readout(leaves[0].detach()[0], gradient[0], float(score.detach()))
            _check_readout(readout, mode.constants, type(model).__name__)
            results.append(readout)
    return results


def _check_readout(readout: Readout, constants: Constants, name: str) -> None:
    parts = (readout.states.double() * readout.gradient.double()).sum(-1)
    total = float(parts.sum()) + constants.total
    size = float(parts.abs().sum()) + abs(readout.score) + constants.size
    if abs(total - readout.score) > _slack(readout.states) * size:
        raise CaptureError(
            f"what leaves the last block of {name} does not add up to the answer ({total:.6g} "
            f"of {readout.score:.6g}): its head does something that cannot be linearized; use "
            "methods=['integrated_gradients']"
        )
