"""Each generated token over the prompt and the earlier output, in one pass over the finished text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from attnx.adapters import (
    PreparedInput,
    SpanSpec,
    adapter_for,
    group_words,
    prepare_inputs,
    takes_logits_to_keep,
    with_prepended_token,
    with_spans,
    without_cache,
)
from attnx.arguments import checked
from attnx.errors import CaptureError, ChoiceError, InputError
from attnx.generation.generate import Generated, check_generates, generate, picture_first, read_continuation
from attnx.generation.result import GenerationExplanation
from attnx.graph import Head
from attnx.hooks import collate, eval_mode, padding_id, unwrap_model
from attnx.methods import Normalization
from attnx.pipeline import (
    DEFAULT_REFERENCES,
    LAST,
    AskedMethods,
    MethodChoice,
    Request,
    Settings,
    asked_references,
    explain_prepared,
    model_and_processor,
    ordered,
    takes_pipelines,
)
from attnx.results import Array, Attribution, Explanation
from attnx.targets import head_logits

if TYPE_CHECKING:
    from attnx.attribution import AskedReferences


def joined(
    whole: PreparedInput,
    prompt_length: int,
    steps: Sequence[Explanation],
    contrasts: Sequence[Explanation],
    generation: Mapping[str, Any],
) -> GenerationExplanation:
    """`steps` are the tokens in their order, `contrasts` the same against their runners-up, or none."""
    if whole.joined and whole.sequences:
        steps, contrasts = [picture_first(step) for step in steps], [picture_first(contrast) for contrast in contrasts]
        length = whole.text_length
        prompt_length += len(whole.positions) - length
        whole = replace(whole, positions=steps[0].positions, words=steps[0].words, sequences={}, spans=())
    first = steps[0]
    # What was not named in the call may have been left out of some step, whose note says so.
    names = [name for name in first.attributions if all(name in step.attributions for step in steps)]
    whole = _in_one_text(whole)
    return GenerationExplanation(
        positions=whole.positions,
        words=whole.words,
        prompt_length=prompt_length,
        attributions={name: _of_all(steps, name) for name in names},
        predictions=_answers(steps),
        text=whole.text if isinstance(whole.text, str) else None,
        notes=tuple(dict.fromkeys(note for step in (*steps, *contrasts) for note in step.notes)),
        provenance=_with_generation(first.provenance, generation),
        contrasts=_answers(contrasts),
        spans=whole.spans,
        sequences=dict(whole.sequences),
        against={name: _rows(contrasts, name) for name in _about_answer(contrasts)},
        image=whole.image,
        image_size=None if whole.image is None else whole.image.size,
        audio=None if whole.audio_input is None else whole.audio_input.audio,
    )


def _in_one_text(whole: PreparedInput) -> PreparedInput:
    """Source and output of an encoder–decoder as one text, a line each, so that words are counted through; sound has
    no line."""
    if not isinstance(whole.text, tuple) or not whole.sequences:
        return whole
    source, output = whole.text
    before = f"{source}\n" if source else ""
    shift = len(before)
    moved = [
        position
        if position.segment == 0 or position.start is None or position.end is None
        else replace(position, start=position.start + shift, end=position.end + shift)
        for position in whole.positions
    ]
    text = before + output
    positions, words = group_words([replace(position, segment=0, word=None) for position in moved], [text])
    return replace(whole, positions=positions, words=words, text=text)


def _answers(steps: Sequence[Explanation]) -> tuple[Any, ...]:
    return tuple(step.prediction for step in steps if step.prediction is not None)


def _about_answer(contrasts: Sequence[Explanation]) -> list[str]:
    """What differs from one answer to another: all else would say the same again."""
    if not contrasts:
        return []
    return [
        name
        for name, attribution in contrasts[0].attributions.items()
        if attribution.target_specific and all(name in contrast.attributions for contrast in contrasts)
    ]


def _rows(steps: Sequence[Explanation], name: str) -> Array:
    """generated × source; what comes after the explained position cannot have been seen, whatever rounding says."""
    rows = np.stack([explanation.scores(name)[:-1] for explanation in steps])
    for row, step in zip(rows, steps, strict=True):
        row[step.position + 1 :] = 0
    return rows


def _of_all(steps: Sequence[Explanation], name: str) -> Attribution:
    """One method over all steps."""
    each = [step.attributions[name] for step in steps]
    first = each[0]
    scores = _rows(steps, name) if first.layers is None else np.stack([one.scores[:, :-1] for one in each], axis=1)
    kinds = dict.fromkeys(kind for attribution in each for kind in attribution.facts)
    diagnostics = {kind: tuple(attribution.facts.get(kind) for attribution in each) for kind in kinds}
    return replace(first, scores=scores, diagnostics=diagnostics, matrices=None)


def _with_generation(provenance: Mapping[str, Any], generation: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of `model.generate` as JSON can have them; of a tensor or an object what it prints."""

    def plain(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [plain(one) for one in value]
        return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)

    said = {name: plain(value) for name, value in generation.items()}
    return {**provenance, "settings": {**provenance["settings"], "generation": said}}


def runners_up(model: nn.Module, tokenizer: Any, whole: PreparedInput, queries: Sequence[int]) -> list[int]:
    """For each position that predicted a token, the id of the best token that is not the one that was written."""
    inputs = without_cache(model, collate(model, [whole], padding_id(model, tokenizer)))
    ids = whole.decoder_ids
    places = torch.tensor(queries, device=next(iter(inputs.values())).device)
    told = {"logits_to_keep": places} if takes_logits_to_keep(model) else {}
    with eval_mode(model):
        logits = head_logits(model, model(**inputs, **told))
        if logits is None:
            raise CaptureError(
                f"{type(model).__name__} predicts no token, so none is a runner-up; load it with its head"
            )
        best = (logits[0] if told else logits[0, places - whole.encoder_length]).topk(2).indices
    return [
        next(one for one in pair if one != wrote)
        for pair, wrote in zip(best.tolist(), (ids[query + 1] for query in queries), strict=True)
    ]


NEW_TOKENS = 20

EACH = "all"
"""How a caller asks for every layer."""


@takes_pipelines("prompt")
@checked
def explain_generation(
    model: Any,
    tokenizer: Any = None,
    prompt: Any = None,
    *,
    max_new_tokens: int = NEW_TOKENS,
    continuation: str | None = None,
    methods: AskedMethods | None = None,
    references: AskedReferences | None = None,
    contrast: bool = False,
    layer: int | str | None = None,
    head: Head | None = None,
    residual: float | None = None,
    normalize: Normalization = "auto",
    drop_sink: bool = False,
    prepend_token: str | int | None = None,
    spans: SpanSpec | None = None,
    truncate: bool = False,
    progress: bool = True,
    **generation: Any,
) -> Any:
    """What each token that `model` writes behind `prompt` drew from: a matrix generated × source for each name.

    The model goes on greedily for at most `max_new_tokens`; other settings of `model.generate` are passed on
    (`do_sample=True, top_p=0.9`, `num_beams=4`). With a `continuation` nothing is generated: that text is explained.
    The finished text is then read once: the row of a token is the view of the position before it, which predicted it.
    `methods` and `references` are those of `explain`, value path first where you choose none; all tokens share one run,
    and what knows the answer goes back through it once for each. With `contrast` it does so once more, for each token
    against its runner-up. `layer` is the last unless you choose, or "all"; `prepend_token` puts a neutral token in
    front, and `spans` names parts of the prompt, as in `explain`. `progress` shows how far it is where that takes more
    than a moment. Of an encoder–decoder the prompt is the source, rows are over it and what was written before, and a
    layer has a name ("cross 2"); `truncate` cuts a source that is too long.
    Of a model that reads both the prompt may be {"image": picture, "text": …}: rows are over patches, too, and
    `g.step(0).overlay()` lays them over the picture.

    Of a list of prompts it is a list, a `GenerationExplanation` each; a list of messages is one chat. Instead of model
    and tokenizer a pipeline or the name of a saved model may be given, as in `explain`. The model and its
    generation config are left exactly as they were.

    >>> from attnx.demo_models.recall import load_demo
    >>> model, tokenizer = load_demo()
    >>> g = explain_generation(model, tokenizer, "k3 v7 k1 v2 k8 v5 k1", max_new_tokens=1, methods="rollout")
    >>> g.generated
    ('v2',)
    """
    model, tokenizer = model_and_processor(model, tokenizer)
    model = unwrap_model(model)
    check_generates(model)
    if head == EACH:
        raise ChoiceError("head='all' has no place in a matrix generated × source; give one number, or mean, max, min")
    choice = MethodChoice.of(methods, references)
    settings = Settings.of(
        ("raw",) if choice.graph == () else choice.graph,
        layer=LAST if layer is None else None if layer == EACH else layer,
        head=head,
        residual=residual,
        normalize=normalize,
        drop_sink=drop_sink,
    )
    nobody_chose = choice.measured is None and settings.methods is None
    call = _Call(
        model,
        tokenizer,
        settings,
        asked_references(DEFAULT_REFERENCES if nobody_chose else choice.measured),
        order=choice.order,
        chosen=not nobody_chose,
        contrast=contrast,
        prepend_token=prepend_token,
        spans=spans,
        truncate=truncate,
        progress=progress,
    )
    if continuation is not None:
        if generation:
            raise InputError(f"{', '.join(generation)} steers generation, but a continuation is given: leave one out")
        return call.explained(call.read(prompt, continuation), {})
    prompts, single = prepare_inputs(adapter_for(model), model, tokenizer, prompt, truncate=truncate)
    generation_explanations = [
        call.explained(written, generation) for written in call.written(prompts, max_new_tokens, generation)
    ]
    return generation_explanations[0] if single else generation_explanations


@dataclass(frozen=True, eq=False)
class _Call:
    """A call of `explain_generation`, read."""

    model: nn.Module
    tokenizer: Any
    settings: Settings
    references: Mapping[str, Mapping[str, Any]]
    order: tuple[str, ...] | None
    chosen: bool
    contrast: bool
    prepend_token: str | int | None
    spans: SpanSpec | None
    truncate: bool
    progress: bool

    def written(
        self, prompts: Sequence[PreparedInput], most: int, generation: Mapping[str, Any]
    ) -> Iterator[Generated]:
        """What the model writes behind each prompt."""
        for prompt in prompts:
            if "input_ids" not in prompt.inputs and not prompt.is_encoder_decoder:
                raise InputError(
                    "explain_generation goes on from a text, or writes one from sound; what a model saw in an image is "
                    "attnx.explain"
                )
            first = self._begun(prompt)
            first = first if self.spans is None else with_spans(first, self.spans)
            words = getattr(self.tokenizer, "tokenizer", self.tokenizer)
            yield generate(self.model, words, first, most, generation, progress=self.progress)

    def read(self, prompt: Any, continuation: str) -> Generated:
        """The text that is there already; a token in front counts to the prompt."""
        written = read_continuation(
            adapter_for(self.model), self.model, self.tokenizer, prompt, continuation, truncate=self.truncate
        )
        prepared = self._begun(written.prepared)
        length = written.prompt_length + len(prepared.positions) - len(written.prepared.positions)
        if self.spans is not None:
            prepared = with_spans(prepared, self.spans, prompt=(written.prompt_end, length))
        return Generated(prepared, length)

    def _begun(self, prepared: PreparedInput) -> PreparedInput:
        first = self.prepend_token
        return prepared if first is None else with_prepended_token(self.model, self.tokenizer, prepared, first)

    def explained(self, written: Generated, generation: Mapping[str, Any]) -> GenerationExplanation:
        whole, queries = written.prepared, _queries(written)
        ids = whole.decoder_ids
        requests = [Request(whole, position=query, target=ids[query + 1]) for query in queries]
        if self.contrast:
            rivals = runners_up(self.model, self.tokenizer, whole, queries)
            requests += [
                Request(whole, position=query, target=(ids[query + 1], rival))
                for query, rival in zip(queries, rivals, strict=True)
            ]
        explanations = dict(
            explain_prepared(
                self.model,
                self.tokenizer,
                requests,
                self.settings,
                references=self.references,
                chosen=self.chosen,
                progress=self.progress,
            )
        )
        every = [ordered(explanations[number], self.order) for number in range(len(requests))]
        _check_causal(every[0], self.model)
        return joined(whole, written.prompt_length, every[: len(queries)], every[len(queries) :], generation)


def _check_causal(step: Explanation, model: nn.Module) -> None:
    if not step.causal and not step.sequences:
        raise CaptureError(
            f"{type(model).__name__} lets positions see later ones, so a pass over the finished text is not what it "
            "saw while it wrote; explain its text with attnx.explain"
        )


def _queries(written: Generated) -> list[int]:
    """The positions that predicted the tokens behind the prompt: each the one before its token."""
    return list(range(written.prompt_length - 1, written.prepared.text_length - 1))
