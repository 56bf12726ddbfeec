"""A call of `explain`, read: what is asked of which inputs, by which settings. Checked before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict, Unpack

from torch import nn

from attnx.capturing.watch import unwrapped
from attnx.errors import ArgumentError, InputError
from attnx.explaining.beforehand import of_entities, with_choices
from attnx.explaining.foresight import foresee
from attnx.explaining.letters import of_every_letter, writes_by_frame
from attnx.explaining.names import ENTITIES, EVERY, check_no_reference, check_position_name
from attnx.explaining.output import of_every_token, of_output
from attnx.explaining.recommended import Recommended
from attnx.explaining.seam import Request, explain_prepared
from attnx.explaining.settings import DEFAULT_REFERENCES, Settings, mean_row
from attnx.graph.asked import Head
from attnx.inputs.adapter import Prepared
from attnx.inputs.families import adapter_for
from attnx.inputs.first_token import with_first_token
from attnx.inputs.given import prepare_all
from attnx.inputs.pooling import check_mean
from attnx.inputs.spans import AskedSpans, with_spans_of_each
from attnx.inputs.towers import named_tower
from attnx.methods.normalization import Normalization
from attnx.references import registry
from attnx.references.registry import AskedReferences
from attnx.registry import unknown
from attnx.results.explanation import Explanation
from attnx.results.recommendation import Recommendation
from attnx.running.batches import bar


class Options(TypedDict, total=False):
    """The keyword arguments of `explain`, for type checkers."""

    methods: Sequence[str] | str | Recommendation | None
    position: int | Literal["mean", "entities", "every"] | list[int | None] | None
    layer: int | str | None
    head: Head | None
    target: Any
    references: AskedReferences | None
    residual: float | None
    normalize: Normalization
    drop_sink: bool
    discard: float
    first_token: str | int | None
    spans: AskedSpans | Sequence[AskedSpans] | None
    target_text: Any
    truncate: bool
    maps: bool
    interpolate: bool
    within: str
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
    first_token: str | int | None = None
    spans: Any = None
    """Parts of the text that are scored as one, or of a list of texts those of each."""
    target_text: Any = None
    """What an encoder–decoder writes, or of a list of texts what it writes for each."""
    every: bool = False
    """Whether each token that it writes is explained, and no one of them."""
    batch_size: int | None = None
    recommended: Recommended | None = None
    progress: bool = False

    @classmethod
    def of(cls, model: nn.Module, **options: Unpack[Options]) -> Choices:
        """Checked, before any input is looked at."""
        chosen: dict[str, Any] = dict(options)
        for name in chosen:
            if name not in Options.__annotations__:
                raise ArgumentError(unknown("argument of explain", name, Options.__annotations__))
        methods, recommended = chosen.pop("methods", None), None
        if isinstance(methods, Recommendation):
            recommended = Recommended.of(methods, unwrapped(model).config, chosen)
            chosen |= recommended.options
            methods = chosen.pop("methods")
        check_no_reference(methods)
        model = unwrapped(model)
        tower = named_tower(model, chosen.get("within", ""))
        if tower is not None:
            model, chosen["within"] = tower, ""
        reading = {name: chosen.pop(name, False) for name in ("truncate", "interpolate")}
        target_text = chosen.pop("target_text", None)
        position, target = chosen.pop("position", None), chosen.pop("target", None)
        first_token, spans = chosen.pop("first_token", None), chosen.pop("spans", None)
        references, batch_size = chosen.pop("references", None), chosen.pop("batch_size", None)
        progress = chosen.pop("progress", False)
        settings = Settings.of(methods, **chosen)
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
            first_token,
            spans,
            target_text,
            every,
            batch_size,
            recommended,
            progress,
        )

    def requests(self, tokenizer: Any, text: Any) -> tuple[list[Request], bool]:
        """What is asked of a text or of several, and whether it is one and no list."""
        adapter = adapter_for(self.model, self.settings.within)
        prepared, single = prepare_all(
            adapter, self.model, tokenizer, text, target_text=self.target_text, **self.reading
        )
        if self.first_token is not None:
            prepared = [_begun(self.model, tokenizer, one, self.first_token) for one in prepared]
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
        return [of_output(one) for one in requests], single

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
        followed = found if self.recommended is None else ((n, self.recommended.followed(one)) for n, one in found)
        return ((number, self._with_note(number, one)) for number, one in followed)

    def _with_note(self, number: int, explanation: Explanation) -> Explanation:
        """What a user should know who gave a target that nothing asked for depends on."""
        methods = self.settings.methods
        knows = self.references or methods is None or any(method.about_answer for method in methods)
        if not self.told or self.requests[number].target is None or knows:
            return explanation
        note = (
            f"{', '.join(explanation.methods)} gives the same scores for every target; gradient_rollout, alti_logit "
            "and value_path depend on it"
        )
        return replace(explanation, notes=(*explanation.notes, note))

    def in_order(self, label: str = "", progress: bool = False) -> list[Explanation]:
        """All explanations, in the order of the inputs."""
        found, progress = {}, progress or self.progress
        foresight = foresee(label, self.model, self.requests, self.settings, self.references) if progress else None
        several = len(self.requests) > 1
        with bar(label or "explaining", len(self.requests), progress and several) as shown:
            for number, explanation in self.explanations(progress and not several):
                found[number] = explanation
                shown.update(1)
                if foresight is not None:
                    foresight.through(number)
        return [found[number] for number in range(len(self.requests))]


def _averaged(model: nn.Module, position: str, settings: Settings) -> Settings:
    """The settings under which the rows of all positions are averaged."""
    check_position_name(position)
    check_mean(model)
    return replace(settings, over_rows=mean_row)


def _begun(model: nn.Module, tokenizer: Any, prepared: Prepared, first_token: str | int) -> Prepared:
    """The input with a token in front, and so all that it is chosen from."""
    choices = tuple(with_first_token(model, tokenizer, one, first_token) for one in prepared.choices)
    return replace(with_first_token(model, tokenizer, prepared, first_token), choices=choices)


def _requests(prepared: Sequence[Prepared], position: Any, target: Any, *, single: bool) -> list[Request]:
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
