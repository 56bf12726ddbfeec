"""A picture and a text that a decoder reads in one sequence: words as words, and patches with their boxes.

The positions of the text, image tokens among them, stand first, as the model counts them. Behind them stand the patches
that the vision tower reads. Where the tower cannot be followed, the image tokens themselves have the boxes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from attnx.errors import InputError
from attnx.inputs.adapter import Prepared
from attnx.inputs.chat import Chat, is_chat, rendered
from attnx.inputs.expanded import Expanded, expanded, image_token, pieces
from attnx.inputs.patches import vision_config
from attnx.inputs.picture import read_picture
from attnx.inputs.positions import Position, Positions, Word, group_words
from attnx.inputs.projection import PIXELS, Projection, projection_of
from attnx.inputs.sheets import Patch, as_readers, layout_of, patches_read, sheet_geometries, side_by_side
from attnx.inputs.text import prepare_prompt

TEXT, PICTURE = "text", "picture"
_IMAGES = ("image", "images")


def reads_both(model: nn.Module) -> bool:
    """Whether a picture and a text go into the model, and text comes out of it."""
    takes = signature(model.forward).parameters
    generates = getattr(model, "can_generate", lambda: False)()
    return bool(generates) and {"input_ids", PIXELS} <= set(takes)


def is_pictured(given: Any) -> bool:
    """Whether a caller gave a picture and a text: {"image": …, "text": …}."""
    return isinstance(given, Mapping) and "text" in given and any(name in given for name in _IMAGES)


def prepare_pictured(model: nn.Module, processor: Any, given: Any, *, truncate: bool = False) -> Prepared:
    """Pictures and a text, as `{"image": picture, "text": text}`; a text alone is read as that of a decoder.

    `image` may be a list; the text has the processor's image token where each stands, or is a chat whose template puts
    it there. Where the text names no picture, they stand in front of it.
    """
    if not is_pictured(given):
        return prepare_prompt(model, getattr(processor, "tokenizer", processor), given, truncate=truncate)
    if not hasattr(processor, "tokenizer") or not hasattr(processor, "image_processor"):
        raise InputError(
            f"a picture with a text needs a processor of both, found {type(processor).__name__}; pass "
            "AutoProcessor.from_pretrained(…)"
        )
    pictures, notes = _pictures(given)
    text, more = _text(processor, given["text"], len(pictures))
    made = expanded(processor, pictures, text)
    inputs, joined = _inputs(made)
    positions, words = _read_text(processor, made, text)
    projection = _projection(model, inputs, joined)
    canvas, lefts = side_by_side(pictures)
    patches = _patches(model, processor, pictures, text, projection, lefts, inputs)
    prepared = Prepared(
        inputs,
        positions,
        words,
        text,
        (*notes, *more),
        facts={
            "pictures": [[left, 0, left + one.size[0], one.size[1]] for left, one in zip(lefts, pictures, strict=True)]
        },
        image=canvas,
        joined=frozenset(joined),
    )
    if projection is None:
        return replace(
            prepared,
            notes=(
                *prepared.notes,
                f"how patches become image tokens was not found in {type(model).__name__}: image tokens have no boxes",
            ),
        )
    return _with_patches(prepared, projection, patches, several=len(pictures) > 1)


def last_of_text(model: nn.Module, processor: Any, prepared: Prepared) -> int:
    """The last token of the text, from which the next is predicted."""
    return prepared.text_length - 1


def _pictures(given: Mapping[str, Any]) -> tuple[list[Any], tuple[str, ...]]:
    named = next(name for name in _IMAGES if name in given)
    several = given[named] if isinstance(given[named], (list, tuple)) else [given[named]]
    if not several:
        raise InputError("the list of pictures is empty: give at least one, or the text alone")
    read = [read_picture(one, 3) for one in several]
    return [picture for picture, _ in read], tuple(dict.fromkeys(note for _, notes in read for note in notes))


def _text(processor: Any, text: Any, count: int) -> tuple[str, tuple[str, ...]]:
    """The text with a token where each picture stands."""
    if isinstance(text, Chat) or is_chat(text):
        owner = processor if getattr(processor, "chat_template", None) else processor.tokenizer
        text = rendered(owner, text if isinstance(text, Chat) else Chat(tuple(text)))
    if not isinstance(text, str) or not text.strip():
        raise InputError(
            f"the text beside a picture must be a text or a chat, found {type(text).__name__} {text!r:.40}"
        )
    token = image_token(processor)
    if token is None or _writes_itself(processor) or text.count(token) == count:
        return text, ()
    if token in text:
        raise InputError(f"the text names {text.count(token)} pictures ({token}), and {count} are given")
    where = f"the text names no picture: {count} stand{'s' if count == 1 else ''} before it; write {token} where"
    return f"{token * count} {text}", (f"{where} {'it' if count == 1 else 'each'} should be",)


def _writes_itself(processor: Any) -> bool:
    """PaliGemma's processor puts pictures in front of a text by itself."""
    return type(processor).__name__ == "PaliGemmaProcessor"


def _inputs(made: Expanded) -> tuple[dict[str, Tensor], list[str]]:
    """The tensors; those with a number for each position lose their batch axis, the others are named."""
    length = torch.as_tensor(made.inputs["input_ids"]).shape[-1]
    inputs, joined = {}, []
    for name, value in made.inputs.items():
        if not isinstance(value, Tensor):
            continue
        if tuple(value.shape) == (1, length):
            inputs[name] = value[0]
        else:
            inputs[name] = value
            joined.append(name)
    return inputs, joined


def _read_text(processor: Any, made: Expanded, text: str) -> tuple[Positions, tuple[Word, ...]]:
    """The positions of the sequence; what the processor wrote into the text is special."""
    ids = made.inputs["input_ids"][0].tolist()
    tokens = processor.tokenizer.convert_ids_to_tokens(ids)
    found = pieces(text, image_token(processor), made.text)
    if made.encoding is None or found is None or len(made.encoding.offsets) != len(ids):
        special = set(processor.tokenizer.all_special_ids)
        bare = [
            Position(place, token or f"<{one}>", one in special)
            for place, (one, token) in enumerate(zip(ids, tokens, strict=True))
        ]
        return group_words(bare, None)
    positions = []
    for place, token in enumerate(tokens):
        span = _in_given(made.encoding.offsets[place], found)
        if span is None or made.encoding.special_tokens_mask[place]:
            positions.append(Position(place, token or f"<{ids[place]}>", special=True))
        else:
            positions.append(Position(place, token, start=span[0], end=span[1]))
    return group_words(positions, [text])


def _in_given(offsets: tuple[int, int], found: Sequence[tuple[int, int, int]]) -> tuple[int, int] | None:
    """Where characters that were written out stand in the text as it was given; None where they do not."""
    start, end = offsets
    for place, length, begin in found:
        if place <= start < end <= place + length:
            return start - place + begin, end - place + begin
    return None


def _projection(model: nn.Module, inputs: Mapping[str, Tensor], joined: Sequence[str]) -> Projection | None:
    batch = {name: one if name in joined else one[None] for name, one in inputs.items()}
    accepted = signature(model.forward).parameters
    first = next(model.parameters())
    return projection_of(
        model,
        {
            name: one.to(first.device, first.dtype if one.is_floating_point() else one.dtype)
            for name, one in batch.items()
            if name in accepted
        },
    )


def _patches(
    model: nn.Module,
    processor: Any,
    pictures: Sequence[Any],
    text: str,
    projection: Projection | None,
    lefts: Sequence[int],
    inputs: Mapping[str, Tensor],
) -> list[Patch | None]:
    """What each position of the tower reads, with its place on the canvas."""
    if projection is None:
        return []
    key = _settings(processor)

    def process(several: Sequence[Any]) -> Tensor:
        pixels: Tensor = expanded(processor, several, text).inputs[PIXELS]
        return pixels

    patch = getattr(vision_config(model), "patch_size", None)
    layout = layout_of(inputs[PIXELS], inputs.get("image_grid_thw"), patch, process, pictures)
    read = patches_read(projection.readers, projection.patches, layout)
    ways = sheet_geometries(process, pictures, layout, None if key is None else (key, text))
    found: list[Patch | None] = []
    for one in read:
        way = None if one is None or one.sheet >= len(ways) else ways[one.sheet]
        if one is None or way is None:
            found.append(one)
            continue
        number, geometry = way
        place = geometry.original(one.box)
        left = lefts[number]
        moved = None if place is None else (place[0] + left, place[1], place[2] + left, place[3])
        found.append(replace(one, picture=number, place=moved))
    return found


def _settings(processor: Any) -> str | None:
    settings = getattr(processor.image_processor, "to_json_string", None)
    return f"{type(processor)} {settings()}" if callable(settings) else None


def _with_patches(
    prepared: Prepared, projection: Projection, patches: Sequence[Patch | None], *, several: bool
) -> Prepared:
    """The positions of the tower behind those of the text, and on each image token the box of all that it reads."""
    length, words = len(prepared.positions), list(prepared.words)
    sheets = {
        one.picture: {other.sheet for other in patches if other is not None and other.picture == one.picture}
        for one in patches
        if one is not None
    }
    positions = [
        replace(one, box=_around([patches[place] for place in read])) if read else one
        for one, read in zip(prepared.positions, projection.reads, strict=True)
    ]
    placed = any(one is not None and one.place is not None for one in patches)
    for place, one in enumerate(patches):
        index = length + place
        if one is None:
            positions.append(Position(index, "[CLS]", special=True))
            continue
        tiles = sorted(sheets[one.picture])
        token = f"r{one.row}c{one.column}"
        if len(tiles) > 1:
            token = f"tile {tiles.index(one.sheet) + 1} {token}"
        if several and one.picture is not None:
            token = f"picture {one.picture + 1} {token}"
        if one.place is None and placed:  # all padding: nothing of the picture is there
            positions.append(Position(index, token, special=True))
            continue
        words.append(Word(len(words), token, (index,)))
        positions.append(Position(index, token, box=one.place, word=len(words) - 1))
    return replace(
        prepared,
        positions=Positions(positions),
        words=tuple(words),
        streams={TEXT: length, PICTURE: len(patches)},
        readers=as_readers(projection.readers, length),
    )


def _around(patches: Sequence[Patch | None]) -> tuple[float, float, float, float] | None:
    """The least box around those of several patches."""
    places = [one.place for one in patches if one is not None and one.place is not None]
    if not places:
        return None
    lefts, tops, rights, bottoms = zip(*places, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)
