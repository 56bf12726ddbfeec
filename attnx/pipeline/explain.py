"""The product in one line: `explain(model, tokenizer, text)`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeGuard, Unpack, overload

from torch import nn

from attnx.adapters import (
    MEAN,
    PreparedInput,
    SpanSpec,
    adapter_for,
    check_mean,
    prepare_inputs,
    select_tower,
    with_prepended_token,
    with_spans_of_each,
)
from attnx.arguments import checked
from attnx.attribution import AskedReferences
from attnx.attribution import base as registry
from attnx.errors import ArgumentError, InputError
from attnx.graph import Head
from attnx.hooks import unwrap_model
from attnx.methods import PAPER_METHODS, Method, Normalization, asked_methods
from attnx.pipeline.estimate import foresee
from attnx.pipeline.loading import model_and_processor, takes_pipelines
from attnx.pipeline.options import (
    DEFAULT_REFERENCES,
    ENTITIES,
    EVERY,
    AskedMethods,
    MethodChoice,
    Settings,
    check_position_name,
    mean_row,
)
from attnx.pipeline.pipeline import Request, explain_prepared
from attnx.pipeline.requests import (
    of_entities,
    of_every_letter,
    of_every_token,
    of_output,
    with_choices,
    writes_by_frame,
)
from attnx.progress import progress_bar
from attnx.registry import unknown
from attnx.results import NOT_KEPT, Explanation, Explanations, layered, unlayered

if TYPE_CHECKING:
    from attnx.evaluation import Recommendation


def settings_of(explanation: Explanation, *, references: bool = True) -> dict[str, Any]:
    """The arguments of `explain` that made it, as they were used; without `references` the caller brings those.

    The target is the caller's to choose, and so is a position: only that it was the mean of all is told.
    """
    return {
        "methods": list(layered(explanation)),
        "references": _references(explanation) if references else None,
        "layer": explanation.layers[0] if len(explanation.layers) == 1 else None,
        "all_queries": any(scores.matrices is not None for scores in explanation.attributions.values()),
        "truncate": "cut" in explanation.provenance.get("input", {}),
        **settings_on_record(explanation.provenance, layered(explanation)),
    }


def settings_on_record(provenance: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """What a record tells of how these of its methods were computed, whatever the text, as `explain` takes it."""
    used, read = (provenance.get(part, {}) for part in ("settings", "input"))
    methods = asked_methods(names)
    return {
        "head": used.get("head"),
        "residual": _residual(used.get("residual", {}), methods),
        "normalize": _normalize(used.get("normalize", "auto"), methods),
        "drop_sink": used.get("drop_sink", False),
        "discard_ratio": used.get("discard_ratio", 0.0) if any(method.discards for method in methods) else 0.0,
        "module": used.get("module", ""),
        "position": MEAN if read.get("averaged", False) else None,
        "prepend_token": read.get("prepend_token"),
    }


def _normalize(used: Any, methods: Sequence[Method]) -> Any:
    """One for all; where some methods take none, that of the others."""
    if not isinstance(used, dict):
        return used
    return next((used[method.name] for method in methods if used.get(method.name) is not None), None)


def _residual(used: Mapping[str, Any], methods: Sequence[Method]) -> float | None:
    """What the caller chose for all methods; None where each has its own."""
    shares = [(used.get(method.name), method.residual) for method in methods]
    chosen = {share for share, value in shares if isinstance(share, float) and share != value}
    return chosen.pop() if len(chosen) == 1 else None


def _references(explanation: Explanation) -> dict[str, dict[str, Any]]:
    """With those options that the reference takes; what it found stands beside them in the record."""
    names = unlayered(explanation)
    if not names:
        return {}
    from attnx.attribution import REFERENCES  # Captum's road is loaded only for those who take it

    result = {}
    for name in names:
        takes = REFERENCES[name].options
        record = explanation.provenance.get("methods", {}).get(name, {})
        result[name] = {option: value for option, value in record.items() if option in takes}
        for option, value in result[name].items():
            if isinstance(value, Mapping):
                raise InputError(
                    f"{name} was measured with {option}={value.get(NOT_KEPT)}, which no record keeps: give it again, "
                    f"references={{{name!r}: {{{option!r}: …}}}}"
                )
    return result


@dataclass(frozen=True)
class Recommended:
    """What a recommendation asks of `explain`."""

    options: Mapping[str, Any]
    """Arguments of `explain` that the caller left open: methods, references, and the settings of the measurement."""
    first: str
    record: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, recommendation: Recommendation, config: Any, chosen: Mapping[str, Any]) -> Recommended:
        """An error where nothing holds; a method must be there, also where only references hold.

        What the caller has `chosen` wins, and a note says where it was measured otherwise.
        """
        holds, best = recommendation.above_chance, recommendation.best
        if best is None:
            raise InputError(f"the recommendation names nothing to explain with: {recommendation.summary()}")
        methods = tuple(name for name in holds if name not in recommendation.references)
        notes: tuple[str, ...] = ()
        if not methods:
            ranked = [name for name in recommendation.ranking() if name not in recommendation.references]
            methods = (*ranked, *PAPER_METHODS)[:1]
            notes = (f"{methods[0]} is there because no method was above chance where the recommendation was made",)
        measured = {
            "layer": recommendation.layer,
            **settings_on_record(recommendation.provenance, methods),
        }
        own = {name: chosen[name] for name in measured if not _left_open(name, chosen)}
        options = {name: value for name, value in measured.items() if name not in own}
        if recommendation.layer == getattr(config, "num_hidden_layers", None):
            options.pop("layer", None)  # the last is what an explanation of all layers shows
        if chosen.get("references") is None:
            options["references"] = {
                name: recommendation.references[name] for name in holds if name in recommendation.references
            }
        notes += _otherwise(own, measured)
        return cls({"methods": methods, **options}, best, recommendation.on_record(), notes)

    def followed(self, explanation: Explanation) -> Explanation:
        """The same explanation, the best in front."""
        rest = {name: scores for name, scores in explanation.attributions.items() if name != self.first}
        return replace(
            explanation,
            attributions={self.first: explanation.attributions[self.first], **rest},
            notes=(*explanation.notes, *self.notes),
            provenance={**explanation.provenance, "recommendation": dict(self.record)},
        )


def _is_recommendation(methods: Any) -> TypeGuard[Recommendation]:
    """By its kind: its class is above this package."""
    return getattr(type(methods), "kind", None) == "recommendation"


def _left_open(name: str, chosen: Mapping[str, Any]) -> bool:
    default = getattr(Settings, name, None)
    return bool(chosen.get(name, default) == default)


def _otherwise(own: Mapping[str, Any], measured: Mapping[str, Any]) -> tuple[str, ...]:
    """A note for what the caller chose otherwise than it was measured."""
    other = {name: value for name, value in own.items() if value != measured[name]}
    if not other:
        return ()
    here, there = (", ".join(f"{name}={values[name]!r}" for name in other) for values in (own, measured))
    return (f"the recommendation was measured with {there}; here it is {here}",)


class Options(TypedDict, total=False):
    """The keyword arguments of `explain`, for type checkers."""

    methods: AskedMethods | Recommendation | None
    position: int | Literal["mean", "entities", "all"] | list[int | None] | None
    layer: int | str | None
    head: Head | None
    target: Any
    references: AskedReferences | None
    residual: float | None
    normalize: Normalization
    drop_sink: bool
    discard_ratio: float
    prepend_token: str | int | None
    spans: SpanSpec | Sequence[SpanSpec] | None
    target_text: Any
    truncate: bool
    all_queries: bool
    interpolate: bool
    module: str
    batch_size: int | None
    progress: bool


@dataclass(frozen=True, eq=False)
class Choices:
    """The options of `explain`, read for a model: what is asked of every input alike."""

    model: nn.Module
    settings: Settings
    references: Mapping[str, Mapping[str, Any]]
    chosen: bool
    """Whether the caller chose the references; what nobody asked for may be left out with a note."""
    reading: Mapping[str, bool]
    """How inputs are prepared."""
    position: Any = None
    entities: bool = False
    """Whether each entity that the model finds is explained, and no one position."""
    target: Any = None
    prepend_token: str | int | None = None
    spans: Any = None
    """Parts of the text that are scored as one, or of a list of texts those of each."""
    target_text: Any = None
    """What an encoder–decoder writes, or of a list of texts what it writes for each."""
    every: bool = False
    """Whether each token that it writes is explained, and no one of them."""
    batch_size: int | None = None
    recommended: Recommended | None = None
    progress: bool = False
    order: tuple[str, ...] | None = None
    """The methods as the caller named them; None where nobody did."""

    @classmethod
    def of(cls, model: nn.Module, **options: Unpack[Options]) -> Choices:
        """Checked, before any input is looked at."""
        chosen: dict[str, Any] = dict(options)
        for name in chosen:
            if name not in Options.__annotations__:
                raise ArgumentError(unknown("argument of explain", name, Options.__annotations__))
        methods, recommended = chosen.pop("methods", None), None
        if _is_recommendation(methods):
            recommended = Recommended.of(methods, unwrap_model(model).config, chosen)
            chosen |= recommended.options
            methods = chosen.pop("methods")
        choice = MethodChoice.of(methods, chosen.pop("references", None))
        model = unwrap_model(model)
        tower = select_tower(model, chosen.get("module", ""))
        if tower is not None:
            model, chosen["module"] = tower, ""
        reading = {name: chosen.pop(name, False) for name in ("truncate", "interpolate")}
        target_text = chosen.pop("target_text", None)
        position, target = chosen.pop("position", None), chosen.pop("target", None)
        prepend_token, spans = chosen.pop("prepend_token", None), chosen.pop("spans", None)
        references, batch_size = choice.measured, chosen.pop("batch_size", None)
        progress = chosen.pop("progress", False)
        # What is only measured needs the prediction, which the pass that captures attention brings.
        settings = Settings.of(PAPER_METHODS[:1] if choice.graph == () else choice.graph, **chosen)
        nobody_chose = references is None and settings.methods is None
        asked = asked_references(DEFAULT_REFERENCES if nobody_chose else references)
        entities = isinstance(position, str) and position == ENTITIES
        every = isinstance(position, str) and position == EVERY
        if every:
            position = None
        if isinstance(position, str):
            settings = settings if entities else _averaged(model, position, settings)
            position = None
        return cls(
            model,
            settings,
            asked,
            not nobody_chose,
            reading,
            position,
            entities,
            target,
            prepend_token,
            spans,
            target_text,
            every,
            batch_size,
            recommended,
            progress,
            None if recommended is not None else choice.order,
        )

    def requests(self, tokenizer: Any, text: Any) -> tuple[list[Request], bool]:
        """What is asked of a text or of several, and whether it is one and no list."""
        adapter = adapter_for(self.model, self.settings.module)
        prepared, single = prepare_inputs(
            adapter, self.model, tokenizer, text, target_text=self.target_text, **self.reading
        )
        if self.prepend_token is not None:
            prepared = [_begun(self.model, tokenizer, one, self.prepend_token) for one in prepared]
        if self.spans is not None:
            prepared = with_spans_of_each(prepared, self.spans, single=single)
        asked = _requests(prepared, self.position, self.target, single=single)
        requests = with_choices(self.model, tokenizer, asked)
        if self.entities:
            requests, single = of_entities(self.model, tokenizer, requests), False
        if self.every and writes_by_frame(self.model):
            requests, single = of_every_letter(self.model, tokenizer, requests), False
        elif self.every:
            requests, single = of_every_token(requests, self.model, single=single), False
        return [of_output(request) for request in requests], single

    def call(self, tokenizer: Any, requests: Sequence[Request], *, single: bool = False) -> Call:
        """The call of these requests."""
        return Call(
            self.model,
            tokenizer,
            requests,
            self.settings,
            self.references,
            self.chosen,
            single,
            self.batch_size,
            self.recommended,
            told=True,
            progress=self.progress,
            order=self.order,
        )


@dataclass(frozen=True, eq=False)
class Call:
    """Requests with the settings that they share; what `explain`, comparisons and probes run."""

    model: nn.Module
    tokenizer: Any
    requests: Sequence[Request]
    settings: Settings
    references: Mapping[str, Mapping[str, Any]]
    chosen: bool = True
    """As in `Choices`."""
    single: bool = True
    """Whether the caller gave one input and not a list."""
    batch_size: int | None = None
    recommended: Recommended | None = None
    told: bool = False
    """Whether a caller of `explain` chose the target, and is told where nothing depends on it."""
    progress: bool = False
    order: tuple[str, ...] | None = None
    """As in `Choices`."""

    @classmethod
    def of(cls, model: nn.Module, tokenizer: Any, text: Any, **options: Unpack[Options]) -> Call:
        """The call with the options of `explain`."""
        choices = Choices.of(model, **options)
        requests, single = choices.requests(tokenizer, text)
        return choices.call(tokenizer, requests, single=single)

    def explanations(self, progress: bool = False) -> Iterator[tuple[int, Explanation]]:
        """The number of each request and its explanation, as batches finish; `progress` shows what is measured."""
        found = explain_prepared(
            self.model,
            self.tokenizer,
            self.requests,
            self.settings,
            references=self.references,
            chosen=self.chosen,
            batch_size=self.batch_size,
            progress=progress,
        )
        followed = (
            found
            if self.recommended is None
            else ((n, self.recommended.followed(explanation)) for n, explanation in found)
        )
        return ((number, self._with_note(number, ordered(explanation, self.order))) for number, explanation in followed)

    def _with_note(self, number: int, explanation: Explanation) -> Explanation:
        """What a user should know who gave a target that nothing asked for depends on."""
        methods = self.settings.methods
        knows = self.references or methods is None or any(method.target_specific for method in methods)
        if not self.told or self.requests[number].target is None or knows:
            return explanation
        note = (
            f"{', '.join(explanation.methods)} gives the same scores for every target; gradient_rollout, alti_logit "
            "and lrp depend on it"
        )
        return replace(explanation, notes=(*explanation.notes, note))

    def in_order(self, label: str = "", progress: bool = False) -> list[Explanation]:
        """All explanations, in the order of the inputs."""
        explanations, progress = {}, progress or self.progress
        foresight = foresee(label, self.model, self.requests, self.settings, self.references) if progress else None
        several = len(self.requests) > 1
        with progress_bar(label or "explaining", len(self.requests), progress and several) as shown:
            for number, explanation in self.explanations(progress and not several):
                explanations[number] = explanation
                shown.update(1)
                if foresight is not None:
                    foresight.through(number)
        return [explanations[number] for number in range(len(self.requests))]


def ordered(explanation: Explanation, names: Sequence[str] | None) -> Explanation:
    """The same explanation with these methods alone, in this order."""
    if names is None or tuple(names) == explanation.methods:
        return explanation
    attributions = {name: explanation.attributions[name] for name in names if name in explanation.attributions}
    layers = any(attribution.layers for attribution in attributions.values())
    return replace(explanation, attributions=attributions, sink=explanation.sink if layers else None)


def _averaged(model: nn.Module, position: str, settings: Settings) -> Settings:
    """The settings under which the rows of all positions are averaged."""
    check_position_name(position)
    check_mean(model)
    return replace(settings, over_rows=mean_row)


def _begun(model: nn.Module, tokenizer: Any, prepared: PreparedInput, prepend_token: str | int) -> PreparedInput:
    """The input with a token in front, and so all that it is chosen from."""
    choices = tuple(with_prepended_token(model, tokenizer, choice, prepend_token) for choice in prepared.choices)
    return replace(with_prepended_token(model, tokenizer, prepared, prepend_token), choices=choices)


def _requests(prepared: Sequence[PreparedInput], position: Any, target: Any, *, single: bool) -> list[Request]:
    """A request for each input; of a list of inputs position and target may be lists, one for each."""
    positions, targets = (
        value if isinstance(value, list) and not single else [value] * len(prepared) for value in (position, target)
    )
    for name, several in (("position", positions), ("target", targets)):
        if len(several) != len(prepared):
            raise InputError(f"{len(several)} {name}s for {len(prepared)} inputs: give one for each, or one for all")
    return [Request(*one) for one in zip(prepared, positions, targets, strict=True)]


def asked_references(references: AskedReferences | None) -> dict[str, dict[str, Any]]:
    """Name → options of what the caller asked for; none where that is nothing."""
    if references is None or (isinstance(references, Sized) and len(references) == 0):
        return {}
    return registry.asked_references(references)


@overload
def explain(model: nn.Module, tokenizer: Any, text: list[Any], **options: Unpack[Options]) -> Explanations: ...


@overload
def explain(
    model: nn.Module, tokenizer: Any, text: str | tuple[str, str], **options: Unpack[Options]
) -> Explanation: ...


@overload
def explain(model: Any, tokenizer: Any = None, text: Any = None, **options: Unpack[Options]) -> Any: ...


@takes_pipelines("text")
@checked
def explain(
    model: Any,
    tokenizer: Any = None,
    text: Any = None,
    *,
    methods: AskedMethods | Recommendation | None = None,
    position: int | Literal["mean", "entities", "all"] | list[int | None] | None = None,
    layer: int | str | None = None,
    head: Head | None = None,
    target: Any = None,
    references: AskedReferences | None = None,
    residual: float | None = None,
    normalize: Normalization = "auto",
    drop_sink: bool = False,
    discard_ratio: float = 0.0,
    prepend_token: str | int | None = None,
    spans: SpanSpec | Sequence[SpanSpec] | None = None,
    target_text: Any = None,
    truncate: bool = False,
    all_queries: bool = False,
    interpolate: bool = False,
    module: str = "",
    batch_size: int | None = None,
    progress: bool = True,
) -> Explanation | Explanations:
    """What `model` looked at in `text`, as an `Explanation`; for a list of texts, a list of them.

    `text` is a text, a pair of texts, (text, [choice, …]), an image, or what the tokenizer made of them; `tokenizer` is
    an image processor for an image. Instead of both, `model` may be a pipeline of transformers, or the directory or hub
    id of a saved model: `explain(pipeline, text)`. `methods` are raw, rollout and flow; of a text so long that flow
    would take minutes it is left out, unless you name it. What `recommend` gave may stand there, too: what holds is
    computed, the best first. `position` is the position whose view is explained: by default CLS, the mask of a masked
    language model, or the last token of a decoder; "mean" explains the mean of all, "entities" gives a list: each that
    a token classifier finds. `layer` (from 1) keeps one layer; `head` is a number from 0, "all", or how heads are
    merged ("mean", "max", "min"). `target` is the class or token to explain: by default the prediction.
    `references` measures on the model itself what each position does for the target (see `attnx.references`); with a
    pair as target, what it does for the first against the second. For a list of texts `position` and `target` may be
    lists, too.

    In a decoder early positions are seen by every later one. `normalize="prefix"` takes that out of rollout and flow;
    it is on for causal models ("auto"), `"receptive_field"` and `"column"` are other ways, and None leaves it out.
    `drop_sink` takes out what goes to the first token. `prepend_token` puts a neutral one in front of the text, "begin"
    for the tokenizer's begin token: another input, which notes and provenance say. `spans` names parts of the text as
    further units: name → (first character, one past the last) or the part itself, a list of parts, "sentences" or
    "lines". `discard_ratio` drops that share of each layer's lowest weights before they are rolled out;
    `interpolate` lets a vision model read images of another size than it was built for. `all_queries` keeps the
    rows of all positions, not only of the explained one. `module` picks one stack of a model that has several, by
    the beginning of its modules' names. `batch_size` is the most inputs of a list that run together, by default as
    many as make 2,048 positions; `progress` shows how far it is where that takes more than a moment. The model and
    the tokenizer are left exactly as they were.

    Of an encoder–decoder `text` is the source and `target_text` what is written of the output so far: the next token is
    explained over both, and `e.shares` says how much is from each. Without it that is the first token that the model
    writes; `position` is another one of the output, and "all" gives a list, one for each. `layer` may be a name
    there: "cross 2" (see `docs/encoder-decoders.md`).

    >>> model, tokenizer = attnx.load_demo()
    >>> e = explain(model, tokenizer, "the keys to the cabinet")
    >>> print(e.prediction)
    plural (0.998)
    >>> e.top(1)[0].text
    'keys'
    """
    model, tokenizer = model_and_processor(model, tokenizer)
    call = Call.of(
        model,
        tokenizer,
        text,
        methods=methods,
        position=position,
        layer=layer,
        head=head,
        target=target,
        references=references,
        residual=residual,
        normalize=normalize,
        drop_sink=drop_sink,
        discard_ratio=discard_ratio,
        prepend_token=prepend_token,
        spans=spans,
        target_text=target_text,
        truncate=truncate,
        all_queries=all_queries,
        interpolate=interpolate,
        module=module,
        batch_size=batch_size,
        progress=progress,
    )
    explanations = call.in_order()
    return explanations[0] if call.single else Explanations(explanations)
