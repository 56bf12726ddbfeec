"""The pipeline: prepared inputs and what is requested of each become explanations as batches finish.

`explain` prepares and calls it; comparisons, probes, tables and generation bring requests of their own. It alone knows
which position is explained when nobody says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from attnx.adapters import (
    Adapter,
    PreparedInput,
    adapter_for,
    attention_kind,
    missing_modality,
    pooling_facts,
    pools_audio_by_mean,
)
from attnx.attention import HEAD_REDUCTIONS, AttentionLayer, AttentionTensor
from attnx.errors import CaptureError, ChoiceError, InputError, in_a_line, out_of_memory, whole_number
from attnx.graph import Graph, Head, PatchSink, Selection, check_position, patch_sinks, sink_share
from attnx.hooks import (
    MAX_BATCH_POSITIONS,
    CapturedBatch,
    Entry,
    GradientCheck,
    capture_batch,
    collate,
    grad_mode,
    gradient_entry,
    max_batch_positions,
    missing_gradient_reason,
    padding_id,
    run_in_batches,
    unwrap_model,
)
from attnx.linearize import check_linearizable, readouts, supports_gradients
from attnx.methods import Method, MethodAnswer, apply
from attnx.pipeline.options import MEASURED_UP_TO, Plan, Settings, mean_row, plan
from attnx.results import NOT_KEPT, Attribution, Explanation, provenance
from attnx.targets import (
    Prediction,
    Target,
    check_score,
    encode_targets,
    kind_of,
    predict,
    prediction_notes,
    score_output,
)
from attnx.targets.score import score

if TYPE_CHECKING:
    from attnx.attribution import Scored

Array = np.ndarray[Any, np.dtype[np.float64]]
T = TypeVar("T")


class Relevance:
    """The methods on the attention of one input, by the settings of a call."""

    def __init__(
        self, attention: AttentionTensor, methods: Sequence[Method], settings: Settings, keep_position: int | None
    ) -> None:
        """`keep_position` is the position whose weights are not discarded: CLS, where the input begins with it."""
        self.attention, self.methods, self.settings, self.keep_position = attention, methods, settings, keep_position
        self._graphs: dict[tuple[str, float, float, bool], Graph] = {}

    def of_positions(self, positions: Sequence[int]) -> dict[str, MethodAnswer]:
        """layer × head × position × input by method; with `over_rows` one row of all, the same for each position."""
        merge = self.settings.over_rows
        if merge is None:
            return self._answers(list(positions))
        method_answers = self._answers(None)
        return {
            name: MethodAnswer(
                merge(method_answer.relevance)[:, :, None].expand(-1, -1, len(positions), -1),
                {
                    kind: values.mean(1, keepdims=True).repeat(len(positions), axis=1)
                    for kind, values in method_answer.diagnostics.items()
                },
                method_answer.facts,
            )
            for name, method_answer in method_answers.items()
        }

    def maps(self) -> dict[str, Any]:
        """layers × (heads ×) query × input of each method that has rows of all positions, in single precision."""
        whole = self._answers(None, [method for method in self.methods if method.reading == "row"])
        return {
            name: scores(method_answer.relevance, self.settings).astype("float32")
            for name, method_answer in whole.items()
        }

    def patch_sinks(self, patches: Sequence[int]) -> list[dict[int, PatchSink]]:
        """Of each layer that is read, the patches that take far more attention than their share."""
        if not self.attention.whole:
            return []
        patch_sinkses = patch_sinks(self.attention, patches)
        layers = Selection.of(
            len(patch_sinkses), self.attention.length, layer=self.settings.layer_of(self.attention)
        ).layers
        return [patch_sinkses[layer - 1] for layer in layers]

    def sink(self, of_patches: Sequence[Mapping[int, PatchSink]] = ()) -> tuple[float, ...] | None:
        """Per layer, the share of attention that goes to the first token of what a model writes, or of an image to the
        patches that are sinks; None where there is none, and of a long input."""
        if any(of_patches) and not self.attention.sequences:
            return tuple(sum(patch_sink.share for patch_sink in layer.values()) for layer in of_patches)
        if not self.attention.whole or not (self.attention.causal or self.attention.sequences):
            return None
        try:
            share = sink_share(self.attention, layer=self.settings.layer_of(self.attention))
        except ChoiceError:  # a window so narrow that nobody else sees it
            return None
        return tuple(share.reshape(-1).tolist())

    def _answers(self, positions: list[int] | None, methods: Sequence[Method] | None = None) -> dict[str, MethodAnswer]:
        layer = self.settings.layer_of(self.attention)
        attention, normalize = self.attention, self.settings.normalization
        if attention.copies > 1:
            every = range(attention.tokens) if positions is None else positions
            positions = [attention.prediction_position(index) for index in every]
        selection = Selection.of(attention.num_layers, attention.length, layer=layer, position=positions)
        method_answers = {
            method.name: apply(method, self._graph(method), selection, normalize(attention, method))
            for method in (self.methods if methods is None else methods)
        }
        # What a position keeps that holds no token is no token's.
        return {
            name: replace(method_answer, relevance=method_answer.relevance[..., : attention.tokens])
            for name, method_answer in method_answers.items()
        }

    def _graph(self, method: Method) -> Graph:
        """The graph of a method's weighting and shares, over weights that are checked and merged once."""
        residual, discard_ratio = (
            self.settings.residual_of(method),
            self.settings.discard_ratio if method.discards else 0.0,
        )
        column = self.settings.normalization(self.attention, method) == "column"
        key = (method.edge_weights, residual, discard_ratio, column)
        if key not in self._graphs:
            alike = (graph for other, graph in self._graphs.items() if (other[0], other[3]) == (key[0], column))
            base = next(alike, None) or Graph.of(
                self.attention,
                edge_weights=method.edge_weights,
                head=self.settings.head,
                drop_sink=self.settings.drop_sink,
                column=column,
                keep_position=self.keep_position,
            )
            self._graphs[key] = base.with_residual(residual, discard_ratio)
        return self._graphs[key]


@dataclass(frozen=True, eq=False)
class Reading:
    """What methods say of one request, in the form of a result."""

    relevance: Mapping[str, Array]
    diagnostics: Mapping[str, Mapping[str, tuple[float, ...]]]
    maps: Mapping[str, Array] | None
    facts: Mapping[str, Mapping[str, float | str]] = field(default_factory=dict)
    """Method → what else it tells, for the provenance."""

    @classmethod
    def of(
        cls, answers: Mapping[str, MethodAnswer], row: int, maps: Mapping[str, Array] | None, settings: Settings
    ) -> Reading:
        """Of one of the positions that were asked for together."""
        relevance = {name: scores(answer.relevance[:, :, row], settings) for name, answer in answers.items()}
        facts = {name: answer.facts for name, answer in answers.items() if answer.facts}
        return cls(relevance, diagnostics(answers, row), maps, facts)

    def joined(self, other: Reading, methods: Sequence[Method]) -> Reading:
        """Both, in the order of the methods."""
        return Reading(
            _in_order({**self.relevance, **other.relevance}, methods),
            _in_order({**self.diagnostics, **other.diagnostics}, methods),
            None if self.maps is None else _in_order({**self.maps, **(other.maps or {})}, methods),
            _in_order({**self.facts, **other.facts}, methods),
        )

    def attributions(self, methods: Sequence[Method], layers: tuple[int, ...]) -> dict[str, Attribution]:
        return {
            method.name: Attribution(
                method=method.name,
                scores=self.relevance[method.name],
                layers=layers,
                signed=method.signed,
                target_specific=method.target_specific,
                single_layer=method.local,
                precision=method.digits,
                diagnostics={**self.diagnostics.get(method.name, {}), **self.facts.get(method.name, {})},
                matrices=None if self.maps is None else self.maps.get(method.name),
            )
            for method in methods
            if method.name in self.relevance
        }


def _in_order(by_method: Mapping[str, T], methods: Sequence[Method]) -> dict[str, T]:
    return {method.name: by_method[method.name] for method in methods if method.name in by_method}


def scores(relevance: Tensor, settings: Settings) -> Array:
    """layers × (heads ×) … of layer × head × …; the axis of heads is there when each was asked for."""
    array: Array = (relevance if settings.head == "all" else relevance[:, 0]).detach().cpu().numpy()
    return array


def diagnostics(answers: Mapping[str, MethodAnswer], row: int) -> dict[str, dict[str, tuple[float, ...]]]:
    """Method → name → a number for each layer, of one of the asked positions."""
    return {
        name: {kind: tuple(values[:, row].tolist()) for kind, values in answer.diagnostics.items()}
        for name, answer in answers.items()
        if answer.diagnostics
    }


def tower_patches(prepared: PreparedInput) -> list[int]:
    """The patches as the tower counts them; image tokens, which have boxes as well, are words of a decoder."""
    if prepared.image is None:
        return []
    begin = prepared.text_length if prepared.sequences else 0
    return [place for place in prepared.positions.content if place >= begin]


def sink_facts(prepared: PreparedInput, layers: Sequence[Mapping[int, PatchSink]]) -> dict[str, Any]:
    """The sinks among the patches, each where it takes the most, those that take the most first."""
    best: dict[int, PatchSink] = {}
    for layer in layers:
        best |= {
            place: patch_sink
            for place, patch_sink in layer.items()
            if place not in best or patch_sink.times > best[place].times
        }
    sinks = [
        {
            "patch": prepared.positions[patch_sink.position].token,
            "layer": patch_sink.layer,
            "share": patch_sink.share,
            "times": patch_sink.times,
        }
        for patch_sink in sorted(best.values(), key=lambda sink: -sink.times)
    ]
    return {"sinks": sinks} if sinks else {}


R = TypeVar("R")


@dataclass(frozen=True)
class Refused:
    """Why there is nothing, in a line."""

    reason: str


@dataclass(frozen=True)
class Postponed(Refused):
    """Memory was short, also for this one alone: it can be run later."""


def attempt(
    things: Sequence[T], run: Callable[[Sequence[T]], Sequence[R]], *, postpone: bool = False
) -> list[R | Refused]:
    """What `run` gives for each of the things, or why it gives nothing.

    With `postpone`, what has not enough memory alone is `Postponed`; without, that error is raised.
    """
    if not things:
        return []
    try:
        return list(run(things))
    except Exception as error:
        if len(things) == 1:
            if not out_of_memory(error):
                return [Refused(in_a_line(error))]
            if not postpone:
                raise
            return [Postponed(in_a_line(error))]
    half = len(things) // 2
    return [*attempt(things[:half], run, postpone=postpone), *attempt(things[half:], run, postpone=postpone)]


@dataclass(frozen=True, eq=False)
class Unmeasured:
    """An explanation that waits for its references."""

    number: int
    explanation: Explanation
    prepared: PreparedInput


@dataclass(frozen=True, eq=False)
class Measuring:
    """The references of one call."""

    model: nn.Module
    processor: Any
    measured: Mapping[str, Mapping[str, Any]]
    chosen: bool
    """Whether the caller chose them."""
    lead: bool
    """Whether the first of them is shown first: so where the caller named no method."""
    progress: bool = False

    def explanations(self, several: Sequence[Unmeasured]) -> Iterator[tuple[int, Explanation]]:
        """The number of each and its explanation with references, or with a note that there are none."""
        explanations = self._measured(several) if self.chosen else self._if_possible(several)
        yield from zip((pending.number for pending in several), explanations, strict=True)

    def _measured(self, several: Sequence[Unmeasured]) -> list[Explanation]:
        from attnx.attribution import (
            Case,
            measure_references,  # Captum's road is loaded only for those who take it
        )

        cases = [Case(pending.prepared, self._target(pending.explanation)) for pending in several]
        scored = measure_references(self.model, self.processor, cases, self.measured, progress=self.progress)
        return [
            _with_references(
                pending.explanation,
                {name: scored[place] for name, scored in scored.items()},
                self.measured,
                lead=self.lead,
            )
            for place, pending in enumerate(several)
        ]

    def _target(self, explanation: Explanation) -> Target:
        return Target.of(self.model, explanation.prediction, explanation.position)

    def _if_possible(self, several: Sequence[Unmeasured]) -> list[Explanation]:
        reasons = [_why_not(pending.explanation, self.measured) for pending in several]
        able = [pending for pending, reason in zip(several, reasons, strict=True) if not reason]
        measured = iter(attempt(able, self._measured))
        results = (Refused(reason) if reason else next(measured) for reason in reasons)
        return [
            _without(pending.explanation, self.measured, result.reason) if isinstance(result, Refused) else result
            for pending, result in zip(several, results, strict=True)
        ]


def options_on_record(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a method as they can be saved; of others what they were."""
    return {
        name: value if isinstance(value, (str, int, float, bool, type(None))) else {NOT_KEPT: repr(value)}
        for name, value in options.items()
    }


def left_out(names: Iterable[str], reason: str) -> str:
    """The note for references that nobody insisted on."""
    return f"{', '.join(names)} was left out: {reason}"


def _with_references(
    explanation: Explanation, scored: Mapping[str, Scored], asked: Mapping[str, Mapping[str, Any]], *, lead: bool
) -> Explanation:
    """Options go into the provenance."""
    measured = {
        name: Attribution(name, one.scores, None, signed=one.signed, target_specific=True, diagnostics=dict(one.facts))
        for name, one in scored.items()
    }
    first, second = (measured, explanation.attributions) if lead else (explanation.attributions, measured)
    return replace(
        explanation,
        attributions={**first, **second},
        notes=(*explanation.notes, *(note for one in scored.values() for note in one.notes)),
        provenance={
            **explanation.provenance,
            "methods": {name: options_on_record(asked[name]) for name in scored},
        },
    )


def _without(explanation: Explanation, names: Iterable[str], reason: str) -> Explanation:
    return replace(explanation, notes=(*explanation.notes, left_out(names, reason)))


def _why_not(explanation: Explanation, names: Iterable[str]) -> str:
    """Why nothing about the answer is measured that nobody asked for; "" where it is."""
    if explanation.prediction is None:
        return (
            "the model has no head that predicts, so nothing can tell what decided; raw attention, rollout and flow "
            "tell what was mixed, and explain_similarity what makes two embeddings similar"
        )
    if len(explanation.positions) > MEASURED_UP_TO:
        name = next(iter(names))
        return (
            f"the input has more than {MEASURED_UP_TO} positions; it is measured where {name} is named as a reference"
        )
    return ""


@dataclass(frozen=True, eq=False)
class Observation:
    """One input as the model took it."""

    attention: AttentionTensor
    output: Any
    """What the model returned for the whole batch."""
    row: int
    """The input's place in the batch."""
    answered: tuple[int, ...] | None = None
    """Positions at which a language model answered; None for all."""
    mixers: tuple[str, ...] = ()
    """Modules that mix positions beside attention, in its own layers."""

    def seat(self, position: int) -> int:
        """Where among the answers of the output the one at `position` is."""
        return position if self.answered is None else self.answered.index(position)


def observe(
    model: nn.Module,
    adapter: Adapter,
    processor: Any,
    prepared: Sequence[PreparedInput],
    plans: Sequence[Plan],
    *,
    head: Head | None = None,
    batch_size: int | None,
    logits_at: Callable[[int], Sequence[int]],
) -> Iterator[tuple[int, Observation]]:
    """The number of each input and its observation, batch by batch: not in the order of the inputs.

    A long input is run by itself, for nothing is gained by padding others to it, and a language model is asked for its
    answers only at the positions that `logits_at` names for the number of the input. Heads are merged as they arrive
    unless single ones are asked for, or a weighting must see them. Where a weighting is about the answer, inputs run
    one by one, and the output can be followed back (see `answer_gradient`).
    """
    pad_id = padding_id(model, processor)
    weightings = [method.edges for each in plans for method in each.methods]
    how: dict[str, Any] = {"extras": tuple(sorted({need for row in weightings for need in row.needs}))}
    if all(row.merges_first for row in weightings):
        how["head"] = "mean" if head is None else head if head in HEAD_REDUCTIONS else None
    way_back = any(row.target_specific for row in weightings) and supports_gradients(model)
    if way_back and any(prepared_input.joined for prepared_input in prepared):
        raise ChoiceError(
            "edges that know the answer are defined for one stack, and a picture with a text has two; use alti, or "
            "methods=['lrp']"
        )
    numbers = {id(prepared_input): number for number, prepared_input in enumerate(prepared)}

    def run(chosen: Sequence[PreparedInput], **options: Any) -> CapturedBatch:
        places = sorted({place for prepared_input in chosen for place in logits_at(numbers[id(prepared_input)])})
        # What is made in inference mode could not be kept for the way back.
        with grad_mode(gradients=True) if way_back else nullcontext():
            inputs, entry = _inputs(model, adapter, chosen, pad_id, way_back=way_back)
            part = "" if attention_kind(adapter) else adapter.module
            return capture_batch(model, inputs, module=part, entry=entry, logits_at=places, **how, **options)

    short = [index for index, each in enumerate(plans) if each.held]
    for places, captured in run_in_batches(
        model,
        [prepared[index] for index in short],
        run,
        pad_id=pad_id,
        first=lambda chosen: _of_the_first(run(chosen)),
        size=1 if way_back or any(prepared[index].joined for index in short) else batch_size,
        at_most=min(MAX_BATCH_POSITIONS, max_batch_positions(model)),
    ):
        for row, place in enumerate(places):
            yield short[place], _observation(captured, row, adapter)
    for index in (index for index, each in enumerate(plans) if not each.held):
        yield index, _observation(run([prepared[index]], held=False, recompute=True), 0, adapter)


def _observation(captured: CapturedBatch, row: int, adapter: Adapter) -> Observation:
    attention = captured.attention[row]
    if kind := attention_kind(adapter):  # over the positions of both streams, without what other levels mix
        attention = replace(attention, layers=tuple(layer for layer in attention.layers if layer.kind == kind))
    return Observation(attention, captured.output, row, captured.answered, captured.mixers)


def _inputs(
    model: nn.Module, adapter: Adapter, chosen: Sequence[PreparedInput], pad_id: int | None, *, way_back: bool
) -> tuple[dict[str, Any], Entry | None]:
    """The model's keyword arguments, and where a way back ends."""
    inputs = collate(model, chosen, pad_id)
    return gradient_entry(adapter, model, inputs) if way_back else (inputs, None)


def _of_the_first(captured: CapturedBatch) -> list[Tensor]:
    """What padding must not change: the first input's attention, and what a classifier says of it."""
    logits = getattr(captured.output, "logits", None)
    classes = [logits[0]] if isinstance(logits, Tensor) and logits.ndim == 2 else []
    return [captured.attention[0].weights, *classes]


def with_answer_gradient(model: nn.Module, seen: Observation, target: Target) -> AttentionTensor:
    """The attention that was seen, each level of which brings `gradient`: that of the target's margin at every head.

    The run must have been one with a way back; any number of targets may be asked for of it.
    """
    check_linearizable(model)
    layers = seen.attention.layers
    with grad_mode(gradients=True):
        kind = check_score(None, model, "margin", target.kind)
        reached = score_output(model, seen.output, seen.row, seen.seat(target.position), target, kind)
        outputs = [level.captured["outputs"] for level in layers if "outputs" in level.captured]
        followed = len(outputs) == len(layers) and all(output.requires_grad for output in outputs)
        able = followed and reached.requires_grad
        check = GradientCheck()
        check.follow(reached)
        gradients = torch.autograd.grad(reached, outputs, retain_graph=True, allow_unused=True) if able else ()
    if check.operation is not None:
        raise CaptureError(f"{missing_gradient_reason(model, check.operation)}; use rollout, or methods=['blankout']")
    if all(tensor is None for tensor in gradients):
        raise CaptureError(
            f"{type(model).__name__} gives no gradient of its answer by its input: it is quantised, or embeds its "
            "input in a way that is not seen; use rollout, or methods=['blankout']"
        )
    return replace(seen.attention, layers=tuple(map(_with_gradient, layers, gradients)))


def _with_gradient(level: AttentionLayer, gradient: Tensor | None) -> AttentionLayer:
    values = level.captured["values"]
    shape = (level.heads, level.query_slice.stop - level.query_slice.start, values.shape[-1])
    return level.with_captured({"gradient": values.new_zeros(shape) if gradient is None else gradient.reshape(shape)})


def readouts_of(
    model: nn.Module,
    processor: Any,
    prepared: PreparedInput,
    attention: AttentionTensor,
    targets: Sequence[Target],
    asking: str,
) -> list[dict[str, Tensor]]:
    """For each target `readout` and `read`, position × width, and the `score`, for all levels to bring.

    They are the target's margin, what leaves the last block, and the margin's gradient there: one run for all targets.
    Blocks must have been brought. `asking` names the methods that want it.
    """
    if attention.sequences:
        raise ChoiceError(
            f"{asking} is defined for one stack, and {type(model).__name__} has two streams; use alti, or "
            "methods=['lrp']"
        )
    if any("norm.gain" in level.captured for level in attention.layers):
        raise ChoiceError(
            f"{asking} reads the answer off a residual stream that goes on as it is, and {type(model).__name__} norms "
            "it behind each block (post-LN); use methods=['lrp']"
        )
    with grad_mode(gradients=True):
        inputs = collate(model, [prepared], padding_id(model, processor))
        answers = kind_of(targets)
        kind = check_score(None, model, "margin", answers)
        device = next(iter(inputs.values())).device
        rows, of = encode_targets(targets, device), torch.zeros(len(targets), dtype=torch.long, device=device)
        block = _last_block(model, attention.modules)
        by_layer = readouts(model, lambda: score(model, inputs, rows, kind, of, answers=answers), block=block)
    if by_layer[0].states.shape != attention.layers[-1].captured["states"].shape:
        raise CaptureError(
            f"{type(model).__name__} goes on with {len(by_layer[0].states)} positions of {attention.length}, so its "
            f"answer is not read off the stream that was seen; {asking} cannot tell. Use methods=['lrp']"
        )
    return [
        {"readout": readout.gradient, "read": readout.states, "score": torch.tensor(readout.score, dtype=torch.float64)}
        for readout in by_layer
    ]


def with_brought(attention: AttentionTensor, captured: Mapping[str, Tensor]) -> AttentionTensor:
    """The same attention, each level of which brings these as well."""
    return replace(attention, layers=tuple(level.with_captured(captured) for level in attention.layers))


def _last_block(model: nn.Module, attending: Sequence[str]) -> nn.Module:
    """The element of a list of modules in which the last attention is, and no other: the outermost of them.

    A block may have a list of its own, for attention and MLP (T5).
    """
    modules: dict[str, nn.Module] = dict(model.named_modules())
    listed = {id(module) for each in modules.values() if isinstance(each, nn.ModuleList) for module in each}
    path = attending[-1].split(".")
    for end in range(1, len(path) + 1):
        name = ".".join(path[:end])
        inside = sum(module == name or module.startswith(f"{name}.") for module in attending)
        if id(modules.get(name)) in listed and inside == 1:
            return modules[name]
    raise CaptureError(
        f"no block was seen around the attention of {attending[-1] or type(model).__name__}, so where its answer is "
        "read is not known; use methods=['lrp']"
    )


def by_kind(methods: Sequence[Method]) -> tuple[list[Method], list[Method]]:
    """Those that know nothing of the answer, and those that do."""
    about = [method for method in methods if method.target_specific]
    return [method for method in methods if method not in about], about


@dataclass(frozen=True, eq=False)
class AnswerEdges:
    """The methods about the answer of one input, which was seen with its values and a way back."""

    model: nn.Module
    processor: Any
    methods: Sequence[Method]
    settings: Settings
    prepared: PreparedInput
    seen: Observation
    keep_position: int | None

    def readings(self, places: Sequence[int], predictions: Sequence[Prediction | None]) -> Iterator[Reading]:
        """What they say of the answer at each place: the prediction, or what was asked for. All share one run."""
        if not self.methods or predictions[0] is None:  # a head that answers does so everywhere
            yield from (Reading({}, {}, None) for _ in places)
            return
        targets = [Target.of(self.model, *pair) for pair in zip(predictions, places, strict=True)]
        for target, attention in zip(targets, self._known(targets), strict=True):
            relevance = Relevance(attention, self.methods, self.settings, self.keep_position)
            maps = relevance.maps() if self.settings.all_queries else None
            yield Reading.of(relevance.of_positions([target.position]), 0, maps, self.settings)

    def _known(self, targets: Sequence[Target]) -> Iterator[AttentionTensor]:
        """The attention with what the methods must know of each answer."""
        reading = [method.name for method in self.methods if method.reading == "share"]
        gone_back = any(method.edges.target_specific for method in self.methods)
        read = (
            readouts_of(self.model, self.processor, self.prepared, self.seen.attention, targets, ", ".join(reading))
            if reading
            else repeat({})
        )
        for target, captured in zip(targets, read, strict=False):
            known = with_answer_gradient(self.model, self.seen, target) if gone_back else self.seen.attention
            yield with_brought(known, captured)

    def notes(self, prediction: Prediction | None, others: Sequence[Method]) -> tuple[str, ...]:
        """That they were left out, where there is no answer; an error if no other method is left."""
        if not self.methods or prediction is not None:
            return ()
        names = ", ".join(method.name for method in self.methods)
        why = f"{type(self.model).__name__} has no head that predicts, and {names} explains an answer"
        if not others:
            raise ChoiceError(f"{why}; load the model with its head, or ask for rollout or alti")
        return (f"{names} left out: {why}",)


_MEASURED_AT_ONCE = 16
"""Explanations whose references are measured together: enough of them to fill batches, and all of one input."""


@dataclass(frozen=True, eq=False)
class Request:
    """What is asked of one input. Requests that share a `PreparedInput` share its run."""

    prepared: PreparedInput
    position: int | None = None
    """The position whose view is explained; None leaves it to the family."""
    target: Any = None
    """The class or token that the prediction speaks of, or a pair; None for the best."""


def explain_prepared(
    model: nn.Module,
    processor: Any,
    requests: Sequence[Request],
    settings: Settings,
    *,
    references: Mapping[str, Mapping[str, Any]] | None = None,
    chosen: bool = True,
    batch_size: int | None = None,
    progress: bool = False,
) -> Iterator[tuple[int, Explanation]]:
    """The number of each request and its explanation, as batches finish: not in the order of the requests.

    References that nobody has `chosen` are left out with a note where they cannot be measured; `progress` shows how far
    they are.
    """
    if batch_size is not None and whole_number("batch_size", batch_size) < 1:
        raise InputError(f"batch_size must be a whole number of at least 1, found {batch_size!r}")
    run = _Run(unwrap_model(model), processor, requests, settings, batch_size)
    if not references:
        yield from run.explanations()
        return
    measuring = Measuring(run.model, processor, references, chosen, settings.methods is None, progress)
    waiting: list[Unmeasured] = []
    for number, explanation in run.explanations():
        if len(waiting) >= _MEASURED_AT_ONCE and requests[number].prepared is not waiting[-1].prepared:
            yield from measuring.explanations(waiting)
            waiting = []
        waiting.append(Unmeasured(number, explanation, requests[number].prepared))
    if waiting:
        yield from measuring.explanations(waiting)


class _Run:
    """One call of the seam."""

    def __init__(
        self, model: nn.Module, processor: Any, requests: Sequence[Request], settings: Settings, batch_size: int | None
    ) -> None:
        if settings.over_rows is None and pools_audio_by_mean(model) and all(one.position is None for one in requests):
            settings = replace(settings, over_rows=mean_row)
        self.model, self.processor, self.settings, self.batch_size = model, processor, settings, batch_size
        self.adapter: Adapter = adapter_for(model, settings.module)
        self.requests = requests
        groups: dict[int, list[int]] = {}
        for number, request in enumerate(requests):
            groups.setdefault(id(request.prepared), []).append(number)
        self.groups = list(groups.values())
        """The requests of each input."""

    def explanations(self) -> Iterator[tuple[int, Explanation]]:
        inputs = [self.requests[group[0]].prepared for group in self.groups]
        plans = [self._plan(input_, len(group)) for input_, group in zip(inputs, self.groups, strict=True)]
        for index, seen in observe(
            self.model,
            self.adapter,
            self.processor,
            inputs,
            plans,
            head=self.settings.head,
            batch_size=self.batch_size,
            logits_at=lambda index: [place for group in self.groups[index] for place in self._possible(group)],
        ):
            yield from self._explained(self.groups[index], seen, plans[index])

    def _plan(self, prepared: PreparedInput, requests: int) -> Plan:
        length, settings = len(prepared.positions), self.settings
        rows = length if settings.all_queries or settings.over_rows is not None else requests
        return plan(
            settings.methods, length, self.model.config, layer=settings.layer, head=settings.head, positions=rows
        )

    def _wanted(self, number: int) -> int:
        """The asked position, or the adapter's choice, before anything was seen."""
        request = self.requests[number]
        if request.position is None:
            try:
                return self.adapter.explained(self.model, self.processor, request.prepared)
            except ChoiceError:
                if self.settings.averaged:  # no position answers by itself, and none was asked for
                    return 0
                raise
        return check_position(request.position, len(request.prepared.positions))

    def _possible(self, number: int) -> list[int]:
        """Where the answer may be read: the first position may turn out to see itself alone."""
        last = self.requests[number].prepared.text_length - 1
        try:
            wanted = self._wanted(number)
        except ChoiceError:  # told when the model was seen: that its layout cannot be explained comes first
            return [last]
        return [wanted] if self.requests[number].position is not None else [wanted, last]

    def _place(self, number: int, attention: AttentionTensor) -> int:
        """The explained position. Where the first can see nothing but itself, a causal model answers from its last."""
        wanted = self._wanted(number)
        chosen = self.requests[number].position is not None
        return attention.length - 1 if not chosen and wanted == 0 and attention.causal else wanted

    def _answered(self, number: int, seen: Observation) -> tuple[int, Prediction | None]:
        """The explained position, and the answer. One that stands in the text is explained where it starts."""
        request, place = self.requests[number], self._place(number, seen.attention)
        prediction = predict(
            self.model, self.processor, seen.output, seen.row, seen.seat(place), request.target, request.prepared
        )
        if request.position is None and prediction is not None and prediction.span is not None:
            return prediction.span[0], prediction
        return place, prediction

    def _explained(self, numbers: Sequence[int], seen: Observation, plan: Plan) -> Iterator[tuple[int, Explanation]]:
        attention, prepared, settings = seen.attention, self.requests[numbers[0]].prepared, self.settings
        _check_length(attention, prepared, self.adapter, self.model)
        answered = [self._answered(number, seen) for number in numbers]
        places = [place for place, _ in answered]
        keep_position = 0 if prepared.positions[0].special else None
        layers = Selection.of(attention.num_layers, attention.length, layer=settings.layer_of(attention)).layers
        plain, about = by_kind(plan.methods)
        edges = AnswerEdges(self.model, self.processor, about, settings, prepared, seen, keep_position)
        relevance = Relevance(attention, plain, settings, keep_position)
        unique = list(dict.fromkeys(places))
        answers = relevance.of_positions(unique)
        sinks = relevance.patch_sinks(tower_patches(prepared))
        maps, sink = relevance.maps() if settings.all_queries else None, relevance.sink(sinks)
        notes = (*prepared.notes, *plan.notes, *_unseen_layers(self.model, attention), *_unseen_mixers(seen))
        notes += _one_tower(self.model) if plain and all(prediction is None for _, prediction in answered) else ()
        notes += _left_out(self.adapter)
        record = {
            **provenance(self.model, self.adapter.name, **settings.on_record(attention, plan.methods)),
            **_input_record(self.model, self.processor, prepared, settings, sinks),
        }
        known = edges.readings(places, [prediction for _, prediction in answered])
        for number, (place, prediction), reading in zip(numbers, answered, known, strict=True):
            row, target = unique.index(place), self.requests[number].target
            reading_of_position = Reading.of(answers, row, maps, settings).joined(reading, plan.methods)
            yield (
                number,
                Explanation(
                    positions=prepared.positions,
                    words=prepared.words,
                    position=place,
                    attributions=reading_of_position.attributions(plan.methods, layers),
                    text=prepared.text,
                    image=prepared.image,
                    image_size=None if prepared.image is None else prepared.image.size,
                    audio=None if prepared.audio_input is None else prepared.audio_input.audio,
                    prediction=prediction,
                    causal=attention.causal,
                    sink=sink,
                    notes=(
                        *notes,
                        *prediction_notes(self.model, self.processor, prediction, target),
                        *edges.notes(prediction, plain),
                    ),
                    provenance=record,
                    spans=prepared.spans,
                    sequences=dict(prepared.sequences),
                ),
            )


def _input_record(
    model: nn.Module,
    processor: Any,
    prepared: PreparedInput,
    settings: Settings,
    sinks: Sequence[Mapping[int, PatchSink]],
) -> dict[str, Any]:
    """How the input was read, where there is anything to say of it."""
    averaged = {"averaged": True} if settings.averaged else {}
    record = {**prepared.facts, **pooling_facts(model, processor, prepared), **averaged, **sink_facts(prepared, sinks)}
    return {"input": record} if record else {}


def _unseen_layers(model: nn.Module, attention: AttentionTensor) -> tuple[str, ...]:
    """A remark when some layers mix positions in another way than by attention, as hybrid models do."""
    layers = attention.num_layers if attention.sequences else getattr(model.config, "num_hidden_layers", None)
    if not isinstance(layers, int) or layers == attention.num_layers:
        return ()
    return (
        f"attention was seen {attention.num_layers} times in {layers} layers: what other layers mix (state spaces, "
        "convolutions) is not followed",
    )


def _one_tower(model: nn.Module) -> tuple[str, ...]:
    """A remark on a tower that was taken out of CLIP or the like: what it is held against there is not here."""
    other = missing_modality(model)
    if other is None:
        return ()
    return (
        f"this is one tower of a model of two: what was mixed does not know the {other}; "
        "explain_similarity(model, processor, picture, text) of the whole tells what speaks for it",
    )


def _unseen_mixers(seen: Observation) -> tuple[str, ...]:
    """The same for what mixes positions beside attention, in the layers that have it."""
    if not seen.mixers:
        return ()
    return (
        f"beside attention, {', '.join(seen.mixers)} mix positions in the same layers (convolutions, state spaces), "
        "which is not followed",
    )


def _left_out(adapter: Adapter) -> tuple[str, ...]:
    """The same for levels of other kinds, where the caller asked for one."""
    if not (kind := attention_kind(adapter)):
        return ()
    return (
        f"module={kind!r}: methods follow these levels alone, each over what the level before it wrote; what "
        "others mix is left out. References are measured on the whole model",
    )


def _check_length(attention: AttentionTensor, prepared: PreparedInput, adapter: Adapter, model: nn.Module) -> None:
    if attention.tokens != len(prepared.positions):
        raise CaptureError(
            f"{type(model).__name__} attends over {attention.length} positions, but the {adapter.name!r} adapter names "
            f"{len(prepared.positions)}: the family needs an adapter of its own (see docs/adapters.md)"
        )
