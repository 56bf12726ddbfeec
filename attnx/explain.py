"""The product in one line: `explain(model, tokenizer, text)`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypedDict, Unpack, overload

import torch
from torch import nn

from attnx.adapters import Adapter, Prepared, adapter_for
from attnx.adapters.batch import collate, padding_id
from attnx.adapters.text import tokenised_rows
from attnx.attention import AttentionTensor
from attnx.capture import capture_batch
from attnx.capture.watch import unwrapped
from attnx.errors import CaptureError, InputError
from attnx.explanation import Explanation
from attnx.methods import METHODS
from attnx.methods.flow import column_bound, saturated_share
from attnx.methods.question import Head, check_position
from attnx.prediction import predict
from attnx.provenance import provenance


class Options(TypedDict, total=False):
    """The keyword arguments of `explain`, for type checkers."""

    methods: Sequence[str] | str
    position: int | None
    layer: int | None
    head: Head | None
    target: str | int | None
    residual: float | None
    truncate: bool
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
    methods: Sequence[str] | str = ("raw", "rollout", "flow"),
    position: int | None = None,
    layer: int | None = None,
    head: Head | None = None,
    target: str | int | None = None,
    residual: float | None = None,
    truncate: bool = False,
    batch_size: int = 8,
) -> Explanation | list[Explanation]:
    """What `model` looked at in `text`, as an `Explanation`; for a list of texts, a list of them.

    `text` is a text, a pair of texts, an image, or what the tokenizer made of them; `tokenizer` is an image processor
    for an image. `position` is the position whose view is explained: by default CLS, the mask of a masked language
    model, or the last token of a decoder. `layer` (from 1) keeps one layer; `head` is a number from 0, "each", or how
    heads are merged ("mean", "max", "min"). `target` is the class or token that `prediction` speaks of: by default the
    best. The model and the tokenizer are left exactly as they were.
    """
    model = unwrapped(model)
    adapter = adapter_for(model)
    methods = (methods,) if isinstance(methods, str) else tuple(methods)
    for name in methods:
        METHODS[name]
    if not methods:
        raise InputError(f"no method asked; there are: {', '.join(METHODS.names())}")
    items, single = _items(text)
    prepared = [adapter.prepare(model, tokenizer, item, truncate=truncate) for item in items]
    pad_id = padding_id(model, tokenizer)
    if batch_size < 1:
        raise InputError(f"batch_size must be at least 1, found {batch_size}")

    explanations: dict[int, Explanation] = {}
    for batch in _batches(prepared, batch_size if pad_id is not None else 1):
        chosen = [prepared[index] for index in batch]
        places = [_place(adapter, model, tokenizer, one, position) for one in chosen]
        captured = capture_batch(model, collate(model, chosen, pad_id), reduce=_reduction(head), within=adapter.within)
        for row, (index, one, place) in enumerate(zip(batch, chosen, places, strict=True)):
            attention = captured.attention[row]
            _check_length(attention, one, adapter, model)
            asked = {"position": place, "head": head} | ({} if residual is None else {"residual": residual})
            relevance = {name: _relevance(name, attention, layer, asked) for name in methods}
            explanations[index] = Explanation(
                positions=one.positions,
                words=one.words,
                position=place,
                layers=tuple(range(1, attention.layers + 1)) if layer is None else (layer,),
                relevance=relevance,
                text=one.text,
                prediction=predict(model, tokenizer, captured.output, row, place, target),
                saturation=_saturation(relevance.get("flow"), attention, asked),
                notes=one.notes,
                provenance=provenance(model, adapter.name, head=head, residual=residual, target=target),
            )
    ordered = [explanations[index] for index in range(len(prepared))]
    return ordered[0] if single else ordered


def _items(text: Any) -> tuple[list[Any], bool]:
    """The single inputs in what the caller gave, and whether it was one input and not a list."""
    if isinstance(text, Mapping):
        if "pixel_values" in text:
            pixels = torch.as_tensor(text["pixel_values"])
            rows = [{"pixel_values": one} for one in (pixels if pixels.ndim == 4 else pixels[None])]
            return list(rows), len(rows) == 1
        tokenised = tokenised_rows(text)
        return list(tokenised), len(tokenised) == 1
    if isinstance(text, list):
        if not text:
            raise InputError("the list of texts is empty: give at least one")
        return text, False
    return [text], True


def _batches(prepared: Sequence[Prepared], size: int) -> Iterator[list[int]]:
    """Indices in groups of similar length, so that little is spent on padding."""
    order = sorted(range(len(prepared)), key=lambda index: len(prepared[index].positions))
    for start in range(0, len(order), size):
        yield order[start : start + size]


def _reduction(head: Head | None) -> Any:
    """Merge heads as they arrive unless single heads are asked for."""
    if head is None:
        return "mean"
    return None if isinstance(head, int) or head == "each" else head


def _place(adapter: Adapter, model: nn.Module, processor: Any, prepared: Prepared, position: int | None) -> int:
    if position is None:
        return adapter.explained(model, processor, prepared)
    return check_position(position, len(prepared.positions))


def _relevance(name: str, attention: AttentionTensor, layer: int | None, asked: dict[str, Any]) -> Any:
    """layers × (heads ×) positions, with an axis of one when a single layer was asked for."""
    scores = METHODS[name](attention, layer=layer, **asked)
    return (scores if layer is None else scores[None]).cpu().numpy()


def _saturation(flow: Any, attention: AttentionTensor, asked: dict[str, Any]) -> tuple[float, ...] | None:
    if flow is None:
        return None
    share = saturated_share(flow, column_bound(attention, **asked))
    return tuple((share if share.ndim == 1 else share.mean(1)).tolist())


def _check_length(attention: AttentionTensor, prepared: Prepared, adapter: Adapter, model: nn.Module) -> None:
    if attention.length != len(prepared.positions):
        raise CaptureError(
            f"{type(model).__name__} attends over {attention.length} positions, but the {adapter.name!r} adapter names "
            f"{len(prepared.positions)}: the family needs an adapter of its own (see docs/adapters.md)"
        )
