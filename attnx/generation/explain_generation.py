"""Each generated token over the prompt and the earlier output, in one pass over the finished text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from attnx.adapters import Prepared, adapter_for
from attnx.capture.watch import unwrapped
from attnx.errors import CaptureError, ChoiceError, InputError
from attnx.generation.result import GenerationExplanation
from attnx.generation.writing import Written, check_writer, read, write
from attnx.inputs import prepare_all
from attnx.long_inputs import asked_methods, road
from attnx.methods.choices import Head, check_layer
from attnx.observation import Attention, Observation, observe
from attnx.prediction import Prediction, predict
from attnx.provenance import provenance
from attnx.relevance import Normalization, Settings, relevance_of

NEW_TOKENS = 20


def explain_generation(
    model: nn.Module,
    tokenizer: Any,
    prompt: Any,
    *,
    max_new_tokens: int = NEW_TOKENS,
    continuation: str | None = None,
    methods: Sequence[str] | str | None = None,
    layer: int | None = None,
    head: Head | None = None,
    residual: float | None = None,
    normalize: Normalization = "auto",
    drop_sink: bool = False,
    **generation: Any,
) -> GenerationExplanation:
    """What `model` looked at for each token that it writes behind `prompt`: a matrix generated × source per method.

    The model goes on greedily for at most `max_new_tokens`; other settings of `model.generate` are passed on
    (`do_sample=True, top_p=0.9`, `num_beams=4`). With a `continuation` nothing is generated: that text is explained.
    The finished text is then read once: the row of a token is the view of the position before it, which predicted it.
    `layer` is the last unless you choose. The model and its generation config are left exactly as they were.
    """
    model = unwrapped(model)
    adapter = adapter_for(model)
    check_writer(model)
    if head == "each":
        raise ChoiceError("head='each' has no place in a matrix generated × source; give one number, or mean, max, min")
    names = asked_methods(methods)
    settings = Settings(layer, head, residual, normalize, drop_sink)
    if continuation is not None:
        if generation:
            raise InputError(f"{', '.join(generation)} steers generation, but a continuation is given: leave one out")
        written = read(adapter, model, tokenizer, prompt, continuation)
    else:
        first = _prompt(*prepare_all(adapter, model, tokenizer, prompt))
        written = write(model, tokenizer, first, max_new_tokens, generation)
    whole, queries = written.prepared, _queries(written)
    plan = road(names, len(whole.positions), model.config, layer=layer, head=head, positions=len(queries))
    ((_, seen),) = observe(
        model, adapter, tokenizer, [whole], [plan], head=head, batch_size=1, answer_at=lambda _: queries
    )
    attention = _checked(seen.attention, model)
    layer = attention.layers if layer is None else check_layer(layer, attention.layers)
    settings = replace(settings, layer=layer)
    found = relevance_of(attention, queries, plan.methods, settings)
    return GenerationExplanation(
        positions=whole.positions,
        words=whole.words,
        prompt_length=written.prompt_length,
        layer=layer,
        relevance={name: rows[0, :, :-1].copy() for name, rows in found.scores.items()},
        predictions=_predictions(model, tokenizer, seen, whole, queries),
        text=whole.text if isinstance(whole.text, str) else None,
        notes=(*whole.notes, *plan.notes),
        provenance=provenance(
            model, adapter.name, **settings.on_record(attention, plan.methods), generation=_on_record(generation)
        ),
    )


def _on_record(generation: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of `model.generate` as JSON can have them; of a tensor or an object what it prints."""

    def plain(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [plain(one) for one in value]
        return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)

    return {name: plain(value) for name, value in generation.items()}


def _queries(written: Written) -> list[int]:
    """The positions that predicted the tokens behind the prompt: each the one before its token."""
    return list(range(written.prompt_length - 1, len(written.prepared.positions) - 1))


def _prompt(prepared: Sequence[Prepared], single: bool) -> Prepared:
    if not single:
        raise InputError(
            f"explain_generation goes on from one prompt, found a list of {len(prepared)}; give them in turn"
        )
    if "input_ids" not in prepared[0].inputs:
        raise InputError("explain_generation goes on from a text; what a model saw in an image is attnx.explain")
    return prepared[0]


def _checked(attention: Attention, model: nn.Module) -> Attention:
    if not attention.causal:
        raise CaptureError(
            f"{type(model).__name__} lets positions see later ones, so a pass over the finished text is not what it "
            "saw while it wrote; explain its text with attnx.explain"
        )
    return attention


def _predictions(
    model: nn.Module, tokenizer: Any, seen: Observation, whole: Prepared, queries: Sequence[int]
) -> tuple[Prediction, ...]:
    ids = whole.inputs["input_ids"].tolist()
    made = [predict(model, tokenizer, seen.output, seen.row, seen.seat(one), ids[one + 1]) for one in queries]
    return tuple(one for one in made if one is not None)
