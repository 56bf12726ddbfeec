"""Prepare whatever a user hands to `explain`: text, chat, image, audio, token ids; then prepend a token or mark spans.

A decoder's first token collects attention that has nowhere else to go. Where that token is a word of the text, the word
seems to matter. With a neutral token in front it is that token: another input, which a note says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import nn

from attnx.adapters.adapter import Adapter, PreparedInput
from attnx.adapters.audio import ENTRIES
from attnx.adapters.families import is_decoder
from attnx.adapters.image_text import is_image_text
from attnx.adapters.model_config import max_positions, vocabulary_size
from attnx.adapters.positions import Position, Positions, Span, stripped_span
from attnx.adapters.text import (
    Chat,
    TokenizerState,
    is_chat,
    prepare_choices,
    questions,
    takes_choices,
    tokenized_inputs,
)
from attnx.errors import AttnxError, ChoiceError, InputError
from attnx.registry import quoted, unknown

_AUDIO_KEYS = (*ENTRIES, "array", "raw")
"""Keys of audio, processed or with its rate."""


def prepare_inputs(
    adapter: Adapter,
    model: nn.Module,
    processor: Any,
    inputs: Any,
    *,
    truncate: bool = False,
    interpolate: bool = False,
    target_text: Any = None,
) -> tuple[list[PreparedInput], bool]:
    """Every input ready for the model, and whether the caller gave one and not a list. Errors name the input.

    `target_text` is what an encoder–decoder has generated of each.
    """
    items, single = questions(inputs) if takes_choices(model) else _items(inputs)
    options: dict[str, Any] = {"truncate": truncate}
    targets: list[dict[str, Any]] = [{}] * len(items)
    if target_text is not None:
        if "target_text" not in adapter.takes:
            raise InputError(
                f"target_text is what an encoder–decoder has generated; {type(model).__name__} reads one text: put it "
                "behind the prompt"
            )
        texts = target_text if isinstance(target_text, list) and not single else [target_text] * len(items)
        if len(texts) != len(items):
            raise InputError(
                f"{len(texts)} targets for {len(items)} inputs: give one target_text for each, or one for all"
            )
        targets = [{"target_text": text} for text in texts]
    if interpolate:
        if "interpolate" not in adapter.takes:
            raise InputError(f"interpolate is for images; {type(model).__name__} reads {adapter.noun}")
        options["interpolate"] = True
    prepared = []
    for number, (item, target) in enumerate(zip(items, targets, strict=True), start=1):
        prepare = partial(adapter.prepare, model, processor, **options, **target)
        try:
            prepared.append(prepare_choices(prepare, item) if takes_choices(model) else prepare(item))
        except AttnxError as error:
            if len(items) == 1:
                raise
            raise type(error)(f"{adapter.noun} {number} of {len(items)}: {error}") from error
    return prepared, single


def is_single_input(item: Mapping[str, Any]) -> bool:
    """Whether a dictionary is what `explain` takes, and no row of a table: tokens, pixels, audio, an image with a
    text."""
    return any(name in item for name in (*_AUDIO_KEYS, "input_ids", "pixel_values")) or is_image_text(item)


def _items(inputs: Any) -> tuple[list[Any], bool]:
    if isinstance(inputs, Mapping):
        if any(name in inputs for name in _AUDIO_KEYS) or is_image_text(inputs):
            return [inputs], True
        if "pixel_values" in inputs:
            pixels = _pixels(inputs["pixel_values"])
            images = [{"pixel_values": pixel} for pixel in (pixels if pixels.ndim == 4 else pixels[None])]
            if not images:
                raise InputError("the batch of processed images is empty: give at least one")
            return list(images), len(images) == 1
        tokenized = tokenized_inputs(inputs)
        return list(tokenized), len(tokenized) == 1
    if is_chat(inputs):
        return [Chat(tuple(inputs))], True
    if any(kind.__name__ == "Series" for kind in type(inputs).__mro__):  # pandas, which need not be there
        inputs = inputs.to_list()
    if isinstance(inputs, list):
        if inputs and all(isinstance(sample, Real) for sample in inputs):  # samples of one audio
            return [inputs], True
        if not inputs:
            raise InputError("the list of texts is empty: give at least one")
        nested = (_items(part)[0] if isinstance(part, Mapping) or is_chat(part) else [part] for part in inputs)
        return [item for items in nested for item in items], False
    return [inputs], True


def _pixels(pixels: Any) -> torch.Tensor:
    """Processed pixels as one tensor; processors that make no tensors give a list of arrays."""
    if isinstance(pixels, torch.Tensor):
        return pixels
    try:
        return torch.as_tensor(np.asarray(pixels))
    except (TypeError, ValueError) as error:
        raise InputError(
            "pixel_values are no tensor, and images of one size cannot be stacked from them; process each image by "
            "itself, with return_tensors='pt', and pass a list of what comes out"
        ) from error


BEGIN = "begin"
"""How a caller requests the token with which the tokenizer's texts begin."""

_FILLED = {"attention_mask": 1, "token_type_ids": 0}
"""What the added position has in the inputs beside its id."""


def with_prepended_token(model: nn.Module, tokenizer: Any, prepared: PreparedInput, token: str | int) -> PreparedInput:
    """The same input behind one more position, a special one. What begins with a special token is left as it is."""
    if not is_decoder(model.config) or "input_ids" not in prepared.inputs:
        raise ChoiceError(
            f"prepend_token={quoted(token)} was requested, but {type(model).__name__} is no decoder, whose first token "
            "collects attention; leave it out"
        )
    number = _token_id(model, tokenizer, token)
    name = str(tokenizer.convert_ids_to_tokens(number))
    first = prepared.positions[0]
    if first.special or int(prepared.inputs["input_ids"][0]) == number:
        note = f"the text begins with {first.token} as it is: prepend_token was left out"
        return replace(prepared, notes=(*prepared.notes, note))
    limit = max_positions(model)
    if limit is not None and len(prepared.positions) >= limit:
        raise InputError(f"the text fills all {limit} positions of the model: prepend_token has no room; shorten it")
    odd = [name for name in prepared.inputs if name not in ("input_ids", *_FILLED)]
    if odd:
        raise InputError(f"a tokenised input with {odd[0]!r} cannot get a prepend_token; put the token in yourself")
    fill = {**_FILLED, "input_ids": number}
    moved = (replace(position, index=position.index + 1) for position in prepared.positions)
    facts = {**prepared.facts, "prepend_token": name}
    if "parts" in facts:
        facts["parts"] = [[role, start + 1, end + 1] for role, start, end in facts["parts"]]
    return replace(
        prepared,
        inputs={
            name: torch.cat([tensor.new_full((1,), fill[name]), tensor]) for name, tensor in prepared.inputs.items()
        },
        positions=Positions((Position(0, name, special=True), *moved)),
        words=tuple(replace(word, positions=tuple(index + 1 for index in word.positions)) for word in prepared.words),
        notes=(*prepared.notes, f"{name} was put in front of the text: the model read another input than the text"),
        facts=facts,
    )


def _token_id(model: nn.Module, tokenizer: Any, token: str | int) -> int:
    """The id of the token: the tokenizer's begin token, a token by its name or its text, or the id itself."""
    if token == BEGIN:
        begins = (getattr(owner, "bos_token_id", None) for owner in (tokenizer, model.config))
        index = next((begin for begin in begins if isinstance(begin, int)), None)
        if index is None:
            raise ChoiceError(
                f"prepend_token={BEGIN!r} was requested, but {type(tokenizer).__name__} has no begin token; name a "
                "token"
            )
        return index
    if not isinstance(token, str):
        if isinstance(token, bool) or not isinstance(token, int):
            raise ChoiceError(f"prepend_token is a token, its id, or {BEGIN!r}, found {quoted(token)}")
        size = vocabulary_size(model)
        if token < 0 or (size is not None and token >= size):
            raise ChoiceError(f"prepend_token {token} is no token id of this vocabulary of {size}")
        return token
    vocabulary = tokenizer.get_vocab()
    if token in vocabulary:
        return int(vocabulary[token])
    pieces: list[int] = []
    if not any("\ud800" <= character <= "\udfff" for character in token):
        with TokenizerState(tokenizer):
            pieces = [int(piece) for piece in tokenizer(token, add_special_tokens=False)["input_ids"]]
    if len(pieces) != 1 or pieces[0] == getattr(tokenizer, "unk_token_id", None):
        raise ChoiceError(
            f"prepend_token {quoted(token)} is no token of the vocabulary, but {len(pieces)} of them; give one token, "
            f"its id, or {BEGIN!r} for the tokenizer's begin token"
        )
    return pieces[0]


Characters: TypeAlias = tuple[int, int]
"""First character, and one past the last."""
SpanSpec: TypeAlias = Mapping[str, Characters | str] | Sequence[str] | str
"""Name → offsets, or the text itself; texts alone; or "sentences" or "lines"."""

_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+|(?<=[。！？])|\n+")
_SHOWN = 24
"""Characters of a text without a name that stand for it."""


def with_spans(prepared: PreparedInput, spec: SpanSpec, prompt: tuple[int | None, int] | None = None) -> PreparedInput:
    """The same input, of which these parts are units.

    A token belongs to the part in which its first letter stands. Parts do not overlap, and need not be all of the text.
    Where only its beginning is a `prompt`, they are parts of that: of so many characters, and so many positions.
    """
    end, length = prompt if prompt is not None else (None, len(prepared.positions))
    if not isinstance(prepared.text, str):
        raise InputError("spans are parts of one text, and this input is none: give the text itself")
    if not prepared.positions.has_offsets:
        raise InputError("this tokenizer has no offsets, so parts of the text cannot be found; use a fast tokenizer")
    letters = {
        position.index: stripped_span(position, prepared.text)[0] for position in prepared.positions[:length].named
    }
    owner: dict[int, str] = {}
    spans = []
    for name, (start, stop) in _span_offsets(prepared.text[:end], spec).items():
        positions = tuple(index for index, letter in letters.items() if start <= letter < stop)
        if not positions:
            raise InputError(f"span {quoted(name)} has no token in it: check its offsets {(start, stop)}")
        if shared := next((owner[index] for index in positions if index in owner), None):
            raise InputError(f"spans {quoted(shared)} and {quoted(name)} overlap; a token can be in only one")
        owner |= dict.fromkeys(positions, name)
        spans.append(Span(name, positions))
    return replace(prepared, spans=tuple(spans))


def with_spans_of_each(
    prepared: Sequence[PreparedInput], spec: SpanSpec | Sequence[SpanSpec], *, single: bool
) -> list[PreparedInput]:
    """The same for one input, or for a list of them: what each has, or "sentences" or "lines" for all."""
    if single or isinstance(spec, str):
        return [with_spans(item, spec) for item in prepared]  # type: ignore[arg-type]
    if isinstance(spec, Mapping) or len(spec) != len(prepared):
        raise InputError(
            f"spans of {len(prepared)} inputs are a list, one for each, or {' or '.join(READY_MADE)} for all"
        )
    return [with_spans(item, part) for item, part in zip(prepared, spec, strict=True)]


def _span_offsets(text: str, spec: SpanSpec) -> dict[str, Characters]:
    end = 0

    def offsets(name: object, part: Any) -> Characters:
        """A part is searched behind the one before it, and where it does not stand there, anywhere."""
        nonlocal end
        if isinstance(part, str):
            start = text.find(part, end) if part else -1
            start = text.find(part) if start < 0 and part else start
            if start < 0:
                raise InputError(
                    f"span {quoted(part[:_SHOWN])} does not stand in the text; give a part of it, or offsets"
                )
            end = start + len(part)
            return start, end
        try:
            start, end = (int(offset) for offset in part)
        except (TypeError, ValueError):
            raise InputError(
                f"span {quoted(name)} must be (first character, one past the last), found {quoted(part)}"
            ) from None
        if not 0 <= start < end <= len(text):
            raise InputError(f"span {quoted(name)} is {start} to {end}, and the text has {len(text)} characters")
        return start, end

    if isinstance(spec, str):
        if spec not in READY_MADE:
            raise InputError(unknown("spans", spec, READY_MADE))
        result = _numbered(text, READY_MADE[spec](text))
    elif isinstance(spec, Mapping):
        result = {str(name): offsets(name, part) for name, part in spec.items()}
    elif isinstance(spec, Sequence) and all(isinstance(part, str) for part in spec):
        result = _numbered(text, [offsets(part, part) for part in spec])
    else:
        raise InputError(
            f"spans are a dictionary of names, a list of texts, or {' or '.join(READY_MADE)}, found {quoted(spec)}"
        )
    if not result:
        raise InputError("there is no span: name at least one part of the text")
    return result


def _numbered(text: str, parts: Sequence[Characters]) -> dict[str, Characters]:
    shown = (" ".join(text[slice(*part)].split()) for part in parts)
    names = (name if len(name) <= _SHOWN else name[: _SHOWN - 1] + "…" for name in shown)
    return {f"{number}. {name}": part for number, (name, part) in enumerate(zip(names, parts, strict=True), start=1)}


def _sentences(text: str) -> list[Characters]:
    """
    >>> [text[a:b] for text in ['One. "Two!" Three'] for a, b in _sentences(text)]
    ['One.', '"Two!"', 'Three']
    """
    return list(_between(text, [(match.start(), match.end()) for match in _SENTENCE_END.finditer(text)]))


def _lines(text: str) -> list[Characters]:
    return list(_between(text, [(index, index + 1) for index, character in enumerate(text) if character == "\n"]))


def _between(text: str, borders: Sequence[Characters]) -> Iterator[Characters]:
    """What stands between borders, without white space around it; closing quotes count to what they close."""
    start = 0
    for begin, end in (*borders, (len(text), len(text))):
        piece = text[start : begin + len(text[begin:end].rstrip())]
        if piece.strip():
            first = start + len(piece) - len(piece.lstrip())
            yield first, first + len(piece.strip())
        start = end


READY_MADE: dict[str, Callable[[str], list[Characters]]] = {"sentences": _sentences, "lines": _lines}
