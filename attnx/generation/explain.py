"""Attribute each generated token to the prompt and the earlier output, in one pass over the finished text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
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
from attnx.generation.generate import Generated, check_generates, generate, image_first, read_continuation
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


NEW_TOKENS = 20
EACH = "all"
"""The value of `layer` for every layer."""


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
    """Generate a continuation of `prompt`, and attribute each of its tokens to the tokens before it.

    The finished text is read in one pass: the row of a token is that of the position before it, which predicted it. The
    model and its generation config stay unchanged.

    Args:
        model: a causal model or an encoder–decoder with its language-model head, a pipeline, or the name of a saved
            model.
        tokenizer: its tokenizer or processor.
        prompt: a text, a list of messages (one chat), audio, or {"image": image, "text": …}; or a list of those. Of an
            encoder–decoder it is the source.
        max_new_tokens: the most tokens to generate, greedily unless `generation` says otherwise.
        continuation: explain this text instead of generating one.
        methods: as in `explain`; by default lrp and attention methods. A method that depends on the target takes one
            backward pass for each token.
        references: further methods, as in `explain`.
        contrast: attribute each token against its runner-up, too.
        layer: by default the last; "all" keeps every layer. Layers of an encoder–decoder have names ("cross 2").
        head: as in `explain`, but heads are always merged.
        residual: as in `explain`.
        normalize: as in `explain`.
        drop_sink: as in `explain`.
        prepend_token: a neutral token in front of the prompt, as in `explain`.
        spans: named parts of the prompt, as in `explain`.
        truncate: cut a source that is too long.
        progress: show a progress bar where it takes more than a moment.
        generation: settings of `model.generate` (`do_sample=True, top_p=0.9`, `num_beams=4`).

    Returns:
        A `GenerationExplanation`, or a list of them for a list of prompts.

    Example:
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
        raise ChoiceError("head='all' is not possible: the matrix has merged heads; give a number, mean, max or min")
    choice = MethodChoice.of(methods, references)
    settings = Settings.of(
        ("raw",) if choice.graph == () else choice.graph,
        layer=LAST if layer is None else None if layer == EACH else layer,
        head=head,
        residual=residual,
        normalize=normalize,
        drop_sink=drop_sink,
    )
    default = choice.measured is None and settings.methods is None
    names = asked_references(DEFAULT_REFERENCES if default else choice.measured)
    adapter = adapter_for(model)

    def prepared(text: PreparedInput) -> PreparedInput:
        return text if prepend_token is None else with_prepended_token(model, tokenizer, text, prepend_token)

    def explained(text: Generated) -> GenerationExplanation:
        """The position before each token explained for that token, and against its runner-up."""
        whole, ids = text.prepared, text.prepared.decoder_ids
        queries = range(text.prompt_length - 1, whole.text_length - 1)
        requests = [Request(whole, position=query, target=ids[query + 1]) for query in queries]
        if contrast:
            rivals = zip(queries, runners_up(model, tokenizer, whole, queries), strict=True)
            requests += [Request(whole, position=query, target=(ids[query + 1], rival)) for query, rival in rivals]
        numbered = explain_prepared(
            model, tokenizer, requests, settings, references=names, chosen=not default, progress=progress
        )
        explanations = [
            ordered(explanation, choice.order) for _, explanation in sorted(numbered, key=lambda pair: pair[0])
        ]
        if not explanations[0].causal and not explanations[0].sequences:
            raise CaptureError(
                f"{type(model).__name__} attends to later positions, so a pass over the finished text is not what it "
                "computed while it generated; explain its text with attnx.explain"
            )
        steps, contrasts = explanations[: len(queries)], explanations[len(queries) :]
        return join_steps(whole, text.prompt_length, steps, contrasts, generation)

    if continuation is not None:
        if generation:
            raise InputError(f"{', '.join(generation)} needs the model to generate, but continuation= passes the text")
        text = read_continuation(adapter, model, tokenizer, prompt, continuation, truncate=truncate)
        whole = prepared(text.prepared)
        length = text.prompt_length + len(whole.positions) - len(text.prepared.positions)
        if spans is not None:
            whole = with_spans(whole, spans, prompt=(text.prompt_end, length))
        return explained(Generated(whole, length))
    results = []
    prompts, single = prepare_inputs(adapter, model, tokenizer, prompt, truncate=truncate)
    for item in prompts:
        if "input_ids" not in item.inputs and not item.is_encoder_decoder:
            raise InputError(
                "explain_generation continues a text or transcribes audio; attnx.explain explains what a model sees in "
                "an image"
            )
        start = prepared(item) if spans is None else with_spans(prepared(item), spans)
        words = getattr(tokenizer, "tokenizer", tokenizer)
        results.append(explained(generate(model, words, start, max_new_tokens, generation, progress=progress)))
    return results[0] if single else results


def runners_up(model: nn.Module, tokenizer: Any, whole: PreparedInput, queries: Sequence[int]) -> list[int]:
    """For each position the id of the best token other than the one that follows."""
    inputs = without_cache(model, collate(model, [whole], padding_id(model, tokenizer)))
    ids, keep = whole.decoder_ids, takes_logits_to_keep(model)
    indices = torch.tensor(queries, device=next(iter(inputs.values())).device)
    with eval_mode(model):
        logits = head_logits(model, model(**inputs, **({"logits_to_keep": indices} if keep else {})))
        if logits is None:
            raise CaptureError(
                f"{type(model).__name__} predicts no token, so there is no runner-up; load it with its head"
            )
        best = (logits[0] if keep else logits[0, indices - whole.encoder_length]).topk(2).indices
    return [
        second if first == ids[query + 1] else first
        for (first, second), query in zip(best.tolist(), queries, strict=True)
    ]


def join_steps(
    whole: PreparedInput,
    prompt_length: int,
    steps: Sequence[Explanation],
    contrasts: Sequence[Explanation],
    generation: Mapping[str, Any],
) -> GenerationExplanation:
    """One result of the explanations of all tokens, and of those against their runners-up, if any."""
    if whole.joined and whole.sequences:
        steps, contrasts = [image_first(step) for step in steps], [image_first(contrast) for contrast in contrasts]
        prompt_length += len(whole.positions) - whole.text_length
        whole = replace(whole, positions=steps[0].positions, words=steps[0].words, sequences={}, spans=())
    whole, first = _in_one_text(whole), steps[0]
    settings = {**first.provenance["settings"], "generation": {name: _json(generation[name]) for name in generation}}
    return GenerationExplanation(
        positions=whole.positions,
        words=whole.words,
        prompt_length=prompt_length,
        # A default method may be missing from some step, whose note says so.
        attributions={
            name: _joined(steps, name)
            for name in first.attributions
            if all(name in step.attributions for step in steps)
        },
        predictions=tuple(step.prediction for step in steps if step.prediction is not None),
        text=whole.text if isinstance(whole.text, str) else None,
        notes=tuple(dict.fromkeys(note for step in (*steps, *contrasts) for note in step.notes)),
        provenance={**first.provenance, "settings": settings},
        contrasts=tuple(step.prediction for step in contrasts if step.prediction is not None),
        spans=whole.spans,
        sequences=dict(whole.sequences),
        against={
            name: _rows(contrasts, name)
            for name, attribution in (contrasts[0].attributions if contrasts else {}).items()
            if attribution.target_specific and all(name in step.attributions for step in contrasts)
        },
        image=whole.image,
        image_size=None if whole.image is None else whole.image.size,
        audio=None if whole.audio_input is None else whole.audio_input.audio,
    )


def _joined(steps: Sequence[Explanation], name: str) -> Attribution:
    """One method over all steps."""
    parts = [step.attributions[name] for step in steps]
    if parts[0].layers is None:
        scores = _rows(steps, name)
    else:
        scores = np.stack([part.scores[:, :-1] for part in parts], axis=1)
    facts = [part.facts for part in parts]
    diagnostics = {kind: tuple(fact.get(kind) for fact in facts) for kind in dict.fromkeys(chain(*facts))}
    return replace(parts[0], scores=scores, diagnostics=diagnostics, matrices=None)


def _rows(steps: Sequence[Explanation], name: str) -> Array:
    """generated × source; the explained position cannot attend to later ones, whatever rounding says."""
    rows = np.stack([step.scores(name)[:-1] for step in steps])
    for row, step in zip(rows, steps, strict=True):
        row[step.position + 1 :] = 0
    return rows


def _in_one_text(whole: PreparedInput) -> PreparedInput:
    """Source and output of an encoder–decoder as two lines of one text, with consecutive words; audio has no line."""
    if not isinstance(whole.text, tuple) or not whole.sequences:
        return whole
    source, output = whole.text
    before = f"{source}\n" if source else ""
    moved = [
        position
        if position.segment == 0 or position.start is None or position.end is None
        else replace(position, start=position.start + len(before), end=position.end + len(before))
        for position in whole.positions
    ]
    text = before + output
    positions, words = group_words([replace(position, segment=0, word=None) for position in moved], [text])
    return replace(whole, positions=positions, words=words, text=text)


def _json(value: Any) -> Any:
    """A setting of `model.generate` as JSON; tensors and objects by their repr."""
    if isinstance(value, (list, tuple)):
        return [_json(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)
