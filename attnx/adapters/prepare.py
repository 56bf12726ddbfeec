"""Prepare whatever a user hands to `explain`: text, chat, image, audio, token ids, or a prepared input.

A decoder's first token collects attention that has nowhere else to go. Where that token is a word of the text, the word
seems to matter. With a neutral token in front it is that one: another input, which is said so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import nn

from attnx.adapters.adapter import Adapter, PreparedInput
from attnx.adapters.audio import ENTRIES
from attnx.adapters.chat import Chat, is_chat
from attnx.adapters.families import is_decoder
from attnx.adapters.image_text import is_image_text
from attnx.adapters.model_config import max_positions, vocabulary_size
from attnx.adapters.positions import Position, Positions
from attnx.adapters.text import TokenizerState, prepare_choices, questions, takes_choices, tokenized_inputs
from attnx.errors import AttnxError, ChoiceError, InputError
from attnx.registry import quoted

_SOUND = (*ENTRIES, "array", "raw")
"""Keys of sound, processed or with its rate."""


def prepare_inputs(
    adapter: Adapter,
    model: nn.Module,
    processor: Any,
    given: Any,
    *,
    truncate: bool = False,
    interpolate: bool = False,
    target_text: Any = None,
) -> tuple[list[PreparedInput], bool]:
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
) -> Iterator[PreparedInput]:
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


def is_single_input(given: Mapping[str, Any]) -> bool:
    """Whether a dictionary is what `explain` takes, and no row of a table: tokens, pixels, sound, a picture with a
    text."""
    return any(name in given for name in (*_SOUND, "input_ids", "pixel_values")) or is_image_text(given)


def _items(given: Any) -> tuple[list[Any], bool]:
    if isinstance(given, Mapping):
        if any(name in given for name in _SOUND) or is_image_text(given):
            return [given], True
        if "pixel_values" in given:
            pixels = _pixels(given["pixel_values"])
            rows = [{"pixel_values": pixel} for pixel in (pixels if pixels.ndim == 4 else pixels[None])]
            if not rows:
                raise InputError("the batch of processed images is empty: give at least one")
            return list(rows), len(rows) == 1
        tokenised = tokenized_inputs(given)
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


BEGIN = "begin"
"""How a caller asks for the token with which the tokenizer's texts begin."""

_FILLED = {"attention_mask": 1, "token_type_ids": 0}
"""What the added position has in the inputs beside its id."""


def with_prepended_token(model: nn.Module, tokenizer: Any, prepared: PreparedInput, asked: str | int) -> PreparedInput:
    """The same input behind one more position, a special one. What begins with a special token is left as it is."""
    if not is_decoder(model.config) or "input_ids" not in prepared.inputs:
        raise ChoiceError(
            f"prepend_token={quoted(asked)} asked, but {type(model).__name__} is no decoder, whose first token "
            "collects attention; leave it out"
        )
    number = _number(model, tokenizer, asked)
    token = str(tokenizer.convert_ids_to_tokens(number))
    begins = prepared.positions[0]
    if begins.special or int(prepared.inputs["input_ids"][0]) == number:
        note = f"the text begins with {begins.token} as it is: prepend_token was left out"
        return replace(prepared, notes=(*prepared.notes, note))
    limit = max_positions(model)
    if limit is not None and len(prepared.positions) >= limit:
        raise InputError(f"the text fills all {limit} positions of the model: prepend_token has no room; shorten it")
    odd = [name for name in prepared.inputs if name not in ("input_ids", *_FILLED)]
    if odd:
        raise InputError(f"a tokenised input with {odd[0]!r} cannot get a prepend_token; put the token in yourself")
    fill = {**_FILLED, "input_ids": number}
    return replace(
        prepared,
        inputs={
            name: torch.cat([tensor.new_full((1,), fill[name]), tensor]) for name, tensor in prepared.inputs.items()
        },
        positions=Positions(
            (
                Position(0, token, special=True),
                *(replace(position, index=position.index + 1) for position in prepared.positions),
            )
        ),
        words=tuple(
            replace(word, positions=tuple(position + 1 for position in word.positions)) for word in prepared.words
        ),
        notes=(*prepared.notes, f"{token} was put in front of the text: the model read another input than the text"),
        facts={**prepared.facts, "prepend_token": token, **_moved(prepared.facts)},
    )


def _moved(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What tells of positions, which stand one further on."""
    return {"parts": [[role, start + 1, end + 1] for role, start, end in facts["parts"]]} if "parts" in facts else {}


def _number(model: nn.Module, tokenizer: Any, name: str | int) -> int:
    """The id of the token: the tokenizer's begin token, a token by its name or its text, or the id itself."""
    if name == BEGIN:
        index = next((begin for begin in _begins(model, tokenizer) if isinstance(begin, int)), None)
        if index is None:
            raise ChoiceError(
                f"prepend_token={BEGIN!r} asked, but {type(tokenizer).__name__} has no begin token; name a token"
            )
        return index
    if not isinstance(name, str):
        if isinstance(name, bool) or not isinstance(name, int):
            raise ChoiceError(f"prepend_token is a token, its id, or {BEGIN!r}, found {quoted(name)}")
        number, size = name, vocabulary_size(model)
        if number < 0 or (size is not None and number >= size):
            raise ChoiceError(f"prepend_token {number} is no token id of this vocabulary of {size}")
        return number
    known = tokenizer.get_vocab()
    if name in known:
        return int(known[name])
    pieces = _pieces(tokenizer, name)
    if len(pieces) != 1 or pieces[0] == getattr(tokenizer, "unk_token_id", None):
        raise ChoiceError(
            f"prepend_token {quoted(name)} is no token of the vocabulary, but {len(pieces)} of them; give one token, "
            f"its id, or {BEGIN!r} for the tokenizer's begin token"
        )
    return int(pieces[0])


def _pieces(tokenizer: Any, text: str) -> list[int]:
    """The ids of a text; none of what cannot be written."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        return []
    with TokenizerState(tokenizer):
        return [int(one) for one in tokenizer(text, add_special_tokens=False)["input_ids"]]


def _begins(model: nn.Module, tokenizer: Any) -> tuple[Any, Any]:
    return getattr(tokenizer, "bos_token_id", None), getattr(model.config, "bos_token_id", None)
