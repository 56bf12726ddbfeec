"""The seam: prepared inputs, each with what is asked of it, become explanations as batches finish.

`explain` prepares and calls it; comparisons, probes, tables and generation bring requests of their own. It alone knows
which position is explained when nobody says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from attnx.answer.prediction import Prediction
from attnx.answer.reading import answer_notes, predict
from attnx.attention.tensor import AttentionTensor
from attnx.capturing.watch import unwrapped
from attnx.errors import CaptureError, ChoiceError, InputError, whole_number
from attnx.explaining.about_answer import AnswerEdges, by_kind
from attnx.explaining.measured import Measuring, Unmeasured
from attnx.explaining.picture_sinks import sink_facts, tower_patches
from attnx.explaining.relevance import Reading, Relevance
from attnx.explaining.settings import Settings, mean_row
from attnx.graph.asked import Asked, check_position
from attnx.graph.patch_sinks import PatchSink
from attnx.inputs.adapter import Adapter, Prepared
from attnx.inputs.families import adapter_for
from attnx.inputs.pooling import answer_facts, averages_sound
from attnx.inputs.streams import followed_kind
from attnx.inputs.towers import other_side
from attnx.results.explanation import Explanation
from attnx.results.provenance import provenance
from attnx.running.observe import Observation, observe
from attnx.running.plan import Plan, plan

_MEASURED_AT_ONCE = 16
"""Explanations whose references are measured together: enough of them to fill batches, and all of one input."""


@dataclass(frozen=True, eq=False)
class Request:
    """What is asked of one input. Requests that share a `Prepared` share its run."""

    prepared: Prepared
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
    run = _Run(unwrapped(model), processor, requests, settings, batch_size)
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
        if settings.over_rows is None and averages_sound(model) and all(one.position is None for one in requests):
            settings = replace(settings, over_rows=mean_row)
        self.model, self.processor, self.settings, self.batch_size = model, processor, settings, batch_size
        self.adapter: Adapter = adapter_for(model, settings.within)
        self.requests = requests
        groups: dict[int, list[int]] = {}
        for number, one in enumerate(requests):
            groups.setdefault(id(one.prepared), []).append(number)
        self.groups = list(groups.values())
        """The requests of each input."""

    def explanations(self) -> Iterator[tuple[int, Explanation]]:
        inputs = [self.requests[group[0]].prepared for group in self.groups]
        plans = [self._plan(one, len(group)) for one, group in zip(inputs, self.groups, strict=True)]
        for index, seen in observe(
            self.model,
            self.adapter,
            self.processor,
            inputs,
            plans,
            head=self.settings.head,
            batch_size=self.batch_size,
            answer_at=lambda index: [place for one in self.groups[index] for place in self._possible(one)],
        ):
            yield from self._explained(self.groups[index], seen, plans[index])

    def _plan(self, prepared: Prepared, requests: int) -> Plan:
        length, settings = len(prepared.positions), self.settings
        rows = length if settings.maps or settings.over_rows is not None else requests
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
        spare = 0 if prepared.positions[0].special else None
        layers = Asked.of(attention.layers, attention.length, layer=settings.layer_of(attention)).layers
        plain, about = by_kind(plan.methods)
        edges = AnswerEdges(self.model, self.processor, about, settings, prepared, seen, spare)
        relevance = Relevance(attention, plain, settings, spare)
        unique = list(dict.fromkeys(places))
        answers = relevance.of_positions(unique)
        sinks = relevance.patch_sinks(tower_patches(prepared))
        maps, sink = relevance.maps() if settings.maps else None, relevance.sink(sinks)
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
            own = Reading.of(answers, row, maps, settings).joined(reading, plan.methods)
            yield (
                number,
                Explanation(
                    positions=prepared.positions,
                    words=prepared.words,
                    position=place,
                    layers=layers,
                    relevance=own.relevance,
                    text=prepared.text,
                    image=prepared.image,
                    image_size=None if prepared.image is None else prepared.image.size,
                    sound=None if prepared.heard is None else prepared.heard.sound,
                    prediction=prediction,
                    causal=attention.causal,
                    diagnostics=own.diagnostics,
                    digits={method.name: method.digits for method in plan.methods if method.digits is not None},
                    local=frozenset(method.name for method in plan.methods if method.local),
                    signed=frozenset(method.name for method in plan.methods if method.signed),
                    about_answer=frozenset(method.name for method in about),
                    sink=sink,
                    notes=(
                        *notes,
                        *answer_notes(self.model, self.processor, prediction, target),
                        *edges.notes(prediction, plain),
                    ),
                    provenance={**record, "methods": own.facts} if own.facts else record,
                    maps=own.maps,
                    spans=prepared.spans,
                    streams=dict(prepared.streams),
                ),
            )


def _input_record(
    model: nn.Module,
    processor: Any,
    prepared: Prepared,
    settings: Settings,
    sinks: Sequence[Mapping[int, PatchSink]],
) -> dict[str, Any]:
    """How the input was read, where there is anything to say of it."""
    averaged = {"averaged": True} if settings.averaged else {}
    found = {**prepared.facts, **answer_facts(model, processor, prepared), **averaged, **sink_facts(prepared, sinks)}
    return {"input": found} if found else {}


def _unseen_layers(model: nn.Module, attention: AttentionTensor) -> tuple[str, ...]:
    """A remark when some layers mix positions in another way than by attention, as hybrid models do."""
    layers = attention.layers if attention.streams else getattr(model.config, "num_hidden_layers", None)
    if not isinstance(layers, int) or layers == attention.layers:
        return ()
    return (
        f"attention was seen {attention.layers} times in {layers} layers: what other layers mix (state spaces, "
        "convolutions) is not followed",
    )


def _one_tower(model: nn.Module) -> tuple[str, ...]:
    """A remark on a tower that was taken out of CLIP or the like: what it is held against there is not here."""
    other = other_side(model)
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
    if not (kind := followed_kind(adapter)):
        return ()
    return (
        f"within={kind!r}: methods follow these levels alone, each over what the level before it wrote; what "
        "others mix is left out. References are measured on the whole model",
    )


def _check_length(attention: AttentionTensor, prepared: Prepared, adapter: Adapter, model: nn.Module) -> None:
    if attention.tokens != len(prepared.positions):
        raise CaptureError(
            f"{type(model).__name__} attends over {attention.length} positions, but the {adapter.name!r} adapter names "
            f"{len(prepared.positions)}: the family needs an adapter of its own (see docs/adapters.md)"
        )
