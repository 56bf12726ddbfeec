"""What the caller gave, as single inputs prepared for the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import nn

from attnx.errors import AttnxError, InputError
from attnx.inputs.adapter import Adapter, Prepared
from attnx.inputs.chat import Chat, is_chat
from attnx.inputs.choices import prepare_choices, questions, takes_choices
from attnx.inputs.picture_and_text import is_pictured
from attnx.inputs.sound import ENTRIES
from attnx.inputs.text import tokenised_rows

_SOUND = (*ENTRIES, "array", "raw")
"""Keys of sound, processed or with its rate."""


def prepare_all(
    adapter: Adapter,
    model: nn.Module,
    processor: Any,
    given: Any,
    *,
    truncate: bool = False,
    interpolate: bool = False,
    target_text: Any = None,
) -> tuple[list[Prepared], bool]:
    """Every input ready for the model, and whether the caller gave one and not a list. Errors name the input.

    `target_text` is what an encoder–decoder has written of each.
    """
    items, single = questions(given) if takes_choices(model) else _items(given)
    outputs = _outputs(adapter, model, target_text, len(items), single=single)
    return list(_prepare(adapter, model, processor, items, outputs, truncate, interpolate)), single


def _outputs(adapter: Adapter, model: nn.Module, given: Any, count: int, *, single: bool) -> list[dict[str, Any]]:
    """What `prepare` is told of the output of each input: nothing where there is none."""
    if given is None:
        return [{}] * count
    if "target_text" not in adapter.takes:
        raise InputError(
            f"target_text is what an encoder–decoder has written; {type(model).__name__} reads one text: put it behind "
            "the prompt"
        )
    several = given if isinstance(given, list) and not single else [given] * count
    if len(several) != count:
        raise InputError(f"{len(several)} targets for {count} inputs: give one target_text for each, or one for all")
    return [{"target_text": one} for one in several]


def _prepare(
    adapter: Adapter,
    model: nn.Module,
    processor: Any,
    items: list[Any],
    outputs: list[dict[str, Any]],
    truncate: bool,
    interpolate: bool,
) -> Iterator[Prepared]:
    options = {"truncate": truncate}
    if interpolate:
        if "interpolate" not in adapter.takes:
            raise InputError(f"interpolate is for images; {type(model).__name__} reads {adapter.noun}")
        options["interpolate"] = True
    prepare = partial(adapter.prepare, model, processor, **options)
    for number, item in enumerate(items, start=1):
        try:
            own = partial(prepare, **outputs[number - 1])
            yield prepare_choices(own, item) if takes_choices(model) else own(item)
        except AttnxError as error:
            if len(items) == 1:
                raise
            raise type(error)(f"{adapter.noun} {number} of {len(items)}: {error}") from error


def is_one_input(given: Mapping[str, Any]) -> bool:
    """Whether a dictionary is what `explain` takes, and no row of a table: tokens, pixels, sound, a picture with a
    text."""
    return any(name in given for name in (*_SOUND, "input_ids", "pixel_values")) or is_pictured(given)


def _items(given: Any) -> tuple[list[Any], bool]:
    if isinstance(given, Mapping):
        if any(name in given for name in _SOUND) or is_pictured(given):
            return [given], True
        if "pixel_values" in given:
            pixels = _pixels(given["pixel_values"])
            rows = [{"pixel_values": one} for one in (pixels if pixels.ndim == 4 else pixels[None])]
            if not rows:
                raise InputError("the batch of processed images is empty: give at least one")
            return list(rows), len(rows) == 1
        tokenised = tokenised_rows(given)
        return list(tokenised), len(tokenised) == 1
    if is_chat(given):
        return [Chat(tuple(given))], True
    if any(kind.__name__ == "Series" for kind in type(given).__mro__):  # pandas, which need not be there
        given = given.to_list()
    if isinstance(given, list):
        if given and all(isinstance(one, Real) for one in given):  # samples of one sound
            return [given], True
        if not given:
            raise InputError("the list of texts is empty: give at least one")
        return [item for one in given for item in (_items(one)[0] if _is_one(one) else [one])], False
    return [given], True


def _is_one(given: Any) -> bool:
    """Whether an element of a list is itself to be taken apart: a tokenised input, or a chat."""
    return isinstance(given, Mapping) or is_chat(given)


def _pixels(given: Any) -> torch.Tensor:
    """Processed pixels as one tensor; processors that are asked for no tensors give a list of arrays."""
    if isinstance(given, torch.Tensor):
        return given
    try:
        return torch.as_tensor(np.asarray(given))
    except (TypeError, ValueError) as error:
        raise InputError(
            "pixel_values are no tensor, and images of one size cannot be stacked from them; process each image by "
            "itself, with return_tensors='pt', and pass a list of what comes out"
        ) from error
