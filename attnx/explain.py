"""The product in one line: `explain(model, tokenizer, text)`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from torch import nn

from attnx.adapters import Adapter, Prepared, adapter_for
from attnx.capture.watch import unwrapped
from attnx.errors import CaptureError, InputError
from attnx.explanation import Explanation
from attnx.inputs import prepare_all
from attnx.long_inputs import asked_methods, road
from attnx.methods.choices import Head, check_layer, check_position
from attnx.observation import Attention, observe
from attnx.prediction import predict
from attnx.provenance import provenance
from attnx.relevance import Normalization, Settings, relevance_of
from attnx.target import piece_notes

if TYPE_CHECKING:
    from attnx.references.registry import Asked


class Options(TypedDict, total=False):
    """The keyword arguments of `explain`, for type checkers."""

    methods: Sequence[str] | str | None
    position: int | None
    layer: int | None
    head: Head | None
    target: str | int | tuple[str | int, str | int] | None
    references: Asked
    residual: float | None
    normalize: Normalization
    drop_sink: bool
    discard: float | None
    truncate: bool
    maps: bool
    interpolate: bool
    batch_size: int


@overload
def explain(model: nn.Module, tokenizer: Any, text: list[Any], **options: Unpack[Options]) -> list[Explanation]: ...


@overload
def explain(
    model: nn.Module, tokenizer: Any, text: str | tuple[str, str], **options: Unpack[Options]
) -> Explanation: ...


@overload
def explain(model: nn.Module, tokenizer: Any, text: Any, **options: Unpack[Options]) -> Any: ...


def explain(
    model: nn.Module,
    tokenizer: Any,
    text: Any,
    *,
    methods: Sequence[str] | str | None = None,
    position: int | None = None,
    layer: int | None = None,
    head: Head | None = None,
    target: str | int | tuple[str | int, str | int] | None = None,
    references: Asked = (),
    residual: float | None = None,
    normalize: Normalization = "auto",
    drop_sink: bool = False,
    discard: float | None = None,
    truncate: bool = False,
    maps: bool = False,
    interpolate: bool = False,
    batch_size: int = 8,
) -> Explanation | list[Explanation]:
    """What `model` looked at in `text`, as an `Explanation`; for a list of texts, a list of them.

    `text` is a text, a pair of texts, an image, or what the tokenizer made of them; `tokenizer` is an image processor
    for an image. `methods` are raw, rollout and flow; of a text so long that flow would take minutes it is left out,
    unless you name it. `position` is the position whose view is explained: by default CLS, the mask of a masked
    language model, or the last token of a decoder. `layer` (from 1) keeps one layer; `head` is a number from 0, "each",
    or how heads are merged ("mean", "max", "min"). `target` is the class or token that `prediction` speaks of: by
    default the best. `references` measures on the model itself what each position does for the target (see
    `attnx.references`); with a pair as target, what it does for the first against the second.

    In a decoder early positions are seen by every later one. `normalize="receptive_field"` takes that out of rollout
    and flow; it is on for causal models ("auto"), `"column"` is another way, and None leaves it out. `drop_sink` takes
    out what goes to the first token. `discard` drops that share of each layer's lowest weights before they are rolled
    out; `interpolate` lets a vision model read images of another size than it was built for. `maps` keeps the rows of
    all positions, not only of the explained one. The model
    and the tokenizer are left exactly as they were.
    """
    model = unwrapped(model)
    adapter = adapter_for(model)
    names = asked_methods(methods)
    settings = Settings(layer, head, residual, normalize, drop_sink, discard)
    settings.check_discard(names)
    reference_options = _reference_options(references)
    if batch_size < 1:
        raise InputError(f"batch_size must be at least 1, found {batch_size}")
    prepared, single = prepare_all(adapter, model, tokenizer, text, truncate=truncate, interpolate=interpolate)
    roads = [
        road(names, length, model.config, layer=layer, head=head, positions=length if maps else 1)
        for length in (len(one.positions) for one in prepared)
    ]

    def answer_at(one: Prepared) -> tuple[int, int]:
        # Where the first position turns out to see itself alone, the last is explained.
        return _wanted(adapter, model, tokenizer, one, position), len(one.positions) - 1

    explanations: dict[int, Explanation] = {}
    for index, seen in observe(
        model, adapter, tokenizer, prepared, roads, head=head, batch_size=batch_size, answer_at=answer_at
    ):
        one, attention, computed = prepared[index], seen.attention, roads[index].methods
        _check_length(attention, one, adapter, model)
        place = _place(adapter, model, tokenizer, one, attention, position)
        kept = tuple(range(1, attention.layers + 1)) if layer is None else (check_layer(layer, attention.layers),)
        own = replace(settings, spare=0 if one.positions[0].special else None)
        found = relevance_of(attention, place, computed, own)
        prediction = predict(model, tokenizer, seen.output, seen.row, seen.seat(place), target)
        explanations[index] = Explanation(
            positions=one.positions,
            words=one.words,
            position=place,
            layers=kept,
            relevance=found.scores,
            text=one.text,
            image=one.image,
            image_size=None if one.image is None else one.image.size,
            prediction=prediction,
            saturation=found.saturation,
            sink=found.sink,
            notes=(
                *one.notes,
                *roads[index].notes,
                *_unseen_layers(model, attention),
                *piece_notes(target, prediction, tokenizer),
            ),
            provenance=provenance(model, adapter.name, **settings.on_record(attention, computed)),
            maps=_maps(attention, computed, own) if maps else None,
        )
    ordered = [explanations[index] for index in range(len(prepared))]
    if reference_options:
        from attnx.references.attach import with_references

        ordered = with_references(model, tokenizer, prepared, ordered, target, reference_options)
    return ordered[0] if single else ordered


def _reference_options(references: Asked) -> dict[str, dict[str, Any]]:
    """What was asked to be measured on the model, checked before anything runs."""
    if not references:
        return {}
    from attnx.references.registry import asked_references  # Captum's road is loaded only for those who take it

    return asked_references(references)


def _place(
    adapter: Adapter, model: nn.Module, processor: Any, one: Prepared, attention: Attention, position: int | None
) -> int:
    """The explained position. Where the first one can see nothing but itself, a causal model answers from its last."""
    place = _wanted(adapter, model, processor, one, position)
    return attention.length - 1 if position is None and place == 0 and attention.causal else place


def _wanted(adapter: Adapter, model: nn.Module, processor: Any, one: Prepared, position: int | None) -> int:
    """The asked position, or the adapter's choice, before anything was seen."""
    return (
        adapter.explained(model, processor, one) if position is None else check_position(position, len(one.positions))
    )


def _maps(attention: Attention, methods: Sequence[str], settings: Settings) -> dict[str, Any]:
    """layers × (heads ×) query × input of each method, in single precision."""
    whole = relevance_of(attention, range(attention.length), methods, settings).scores
    return {name: scores.astype("float32") for name, scores in whole.items()}


def _unseen_layers(model: nn.Module, attention: Attention) -> tuple[str, ...]:
    """A remark when some layers mix positions in another way than by attention, as hybrid models do."""
    layers = getattr(model.config, "num_hidden_layers", None)
    if not isinstance(layers, int) or layers == attention.layers:
        return ()
    return (
        f"attention was seen {attention.layers} times in {layers} layers: what other layers mix (state spaces, "
        "convolutions) is not followed",
    )


def _check_length(attention: Attention, prepared: Prepared, adapter: Adapter, model: nn.Module) -> None:
    if attention.length != len(prepared.positions):
        raise CaptureError(
            f"{type(model).__name__} attends over {attention.length} positions, but the {adapter.name!r} adapter names "
            f"{len(prepared.positions)}: the family needs an adapter of its own (see docs/adapters.md)"
        )
