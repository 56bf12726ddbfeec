"""Nothing in place of something: how a token, a word or a patch is blanked out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from attnx.attention.rows import rows_to_one
from attnx.errors import ChoiceError, whole_number
from attnx.inputs.adapter import Adapter, Box, Prepared
from attnx.inputs.families import adapter_for
from attnx.inputs.model_facts import vocabulary_size
from attnx.references.attribution import Batch
from attnx.registry import unknown

DELETE = "delete"


@dataclass(frozen=True)
class Blank:
    """What stands for nothing."""

    apply: Callable[[Prepared, Sequence[int]], Prepared]
    """(input, positions) → the input with nothing at these positions."""
    shortens: bool = False
    """Whether blanked positions are gone, and those behind them move up."""


def choose_blank(
    model: nn.Module, adapter: Adapter, processor: Any, prepared: Prepared, blank: str | int | None
) -> Blank:
    """The blank that the user named. For text: a token, its id, `"unk_token"` and the like, or `"delete"`.

    For an image: `"gray"` (the default), `"mean"`, the mean colour of the picture, or `"blur"`, the picture out of
    focus, which takes away detail without putting in edges that no photo has.
    """
    if prepared.boxes is not None:
        if blank is not None and (not isinstance(blank, str) or blank not in _FILLS):
            raise ChoiceError(unknown("blank", blank, _FILLS) + " (this is an image)")
        return Blank(partial(_painted, fill=_FILLS[str(blank or "gray")], processor=processor))
    if blank == DELETE:
        return Blank(deleted, shortens=True)
    blank_id = adapter.blank_token_id(processor) if blank is None else _token_id(model, processor, blank)
    return Blank(partial(replaced, blank_id=blank_id))


def replaced(prepared: Prepared, places: Sequence[int], blank_id: int) -> Prepared:
    """Another token at these positions."""
    ids = prepared.inputs["input_ids"].clone()
    ids[list(places)] = blank_id
    return replace(prepared, inputs={**prepared.inputs, "input_ids": ids})


def deleted(prepared: Prepared, places: Sequence[int]) -> Prepared:
    """The input without these positions; what comes behind moves up."""
    gone = set(places)
    kept = [index for index in range(len(prepared.positions)) if index not in gone]
    if not kept:
        raise ChoiceError("nothing would be left of the text; blank it with a token instead of deleting")
    inputs = {name: tensor[kept] for name, tensor in prepared.inputs.items()}
    return replace(prepared, inputs=inputs, positions=tuple(prepared.positions[index] for index in kept))


def _token_id(model: nn.Module, tokenizer: Any, blank: str | int) -> int:
    """The id of a blank that the user named; one that the tokenizer does not have is an error."""
    size = vocabulary_size(model)
    if not isinstance(blank, str):
        blank_id = whole_number("blank", blank)
        if blank_id < 0 or (size is not None and blank_id >= size):
            raise ChoiceError(f"blank {blank_id} is no token id of this vocabulary of {size}")
        return blank_id
    if blank.endswith("_token"):
        token_id = getattr(tokenizer, f"{blank}_id", None)
        if token_id is None:
            raise ChoiceError(
                f"blank {blank!r} asked, but the tokenizer has no such token; give another token of its vocabulary, "
                f"its id, or {DELETE!r}"
            )
        return int(token_id)
    vocabulary: Mapping[str, int] = tokenizer.get_vocab()
    if blank not in vocabulary:
        raise ChoiceError(
            f"blank {blank!r} is no token of this tokenizer; give one of its vocabulary, its id, 'unk_token', "
            f"'mask_token', 'pad_token' or {DELETE!r}"
        )
    return vocabulary[blank]


def _painted(
    prepared: Prepared, places: Sequence[int], fill: Callable[[Prepared, Any], Tensor], processor: Any
) -> Prepared:
    """Something else over the patches at these positions."""
    pixels = prepared.inputs["pixel_values"].clone()
    paint = fill(prepared, processor).expand_as(pixels)
    for left, top, right, bottom in _boxes(prepared, places):
        pixels[:, top:bottom, left:right] = paint[:, top:bottom, left:right]
    return replace(prepared, inputs={**prepared.inputs, "pixel_values": pixels})


def _boxes(prepared: Prepared, places: Sequence[int]) -> list[Box]:
    assert prepared.boxes is not None
    return [box for place in places if (box := prepared.boxes[place]) is not None]


def _gray(prepared: Prepared, processor: Any) -> Tensor:
    """Half-way between black and white, as the processor scales pixels; 0 where it does not say."""
    pixels = prepared.inputs["pixel_values"]
    processor = getattr(processor, "image_processor", processor)
    mean, deviation = (getattr(processor, name, None) for name in ("image_mean", "image_std"))
    if mean is None or deviation is None or not getattr(processor, "do_normalize", True):
        return pixels.new_full((len(pixels), 1, 1), 0.5 if getattr(processor, "do_normalize", True) is False else 0.0)
    channels = torch.tensor([(0.5 - one) / other for one, other in zip(mean, deviation, strict=True)])
    return channels.to(pixels).expand(len(pixels))[:, None, None]


def _mean(prepared: Prepared, processor: Any) -> Tensor:
    return prepared.inputs["pixel_values"].mean((1, 2), keepdim=True)


def _blur(prepared: Prepared, processor: Any) -> Tensor:
    """By a Gaussian as wide as a patch: nothing within one is left to see."""
    pixels = prepared.inputs["pixel_values"]
    left, top, right, bottom = _boxes(prepared, range(len(prepared.positions)))[0]
    for axis, width in ((1, bottom - top), (2, right - left)):
        pixels = _blurred(pixels, axis, float(width))
    return pixels


def _blurred(pixels: Tensor, axis: int, width: float) -> Tensor:
    """Each line is the mean of all, by their distance; at the edges of those that there are."""
    places = torch.arange(pixels.shape[axis], dtype=pixels.dtype, device=pixels.device)
    weights = torch.exp(-(((places[:, None] - places) / width) ** 2) / 2)
    return (pixels.movedim(axis, -1) @ rows_to_one(weights).T).movedim(-1, axis)


_FILLS: Mapping[str, Callable[[Prepared, Any], Tensor]] = {"gray": _gray, "mean": _mean, "blur": _blur}

Baseline: TypeAlias = Literal["blank", "zero"]
BASELINES: tuple[Baseline, ...] = ("blank", "zero")


def baseline(batch: Batch, model: nn.Module, processor: Any, name: Baseline) -> Tensor:
    """Of the shape of the batch's values. Special tokens stay, so that they are attributed nothing."""
    if name not in BASELINES:
        raise ChoiceError(unknown("baseline", name, BASELINES))
    if name == "blank":
        blank = choose_blank(model, adapter_for(model), processor, batch.cases[0].prepared, None)
        return batch.enter([blank.apply(case.prepared, case.content) for case in batch.cases])
    zero = batch.values.detach().clone()
    for row, case in enumerate(batch.cases):
        if case.prepared.boxes is None:
            zero[row, case.content] = 0
        else:
            zero[row] = torch.zeros_like(zero[row])
    return zero
