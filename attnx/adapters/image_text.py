"""A picture and a text that a decoder reads in one sequence: words as words, and patches with their boxes.

The positions of the text, image tokens among them, stand first, as the model counts them. Behind them stand the patches
that the vision tower reads. Where the tower cannot be followed, the image tokens themselves have the boxes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from attnx.adapters.adapter import Box, PreparedInput
from attnx.adapters.chat import Chat, is_chat, rendered
from attnx.adapters.image import Array, Geometry, load_image, measure_geometry, vision_config
from attnx.adapters.image_tokens import PIXELS, Projection, find_projection
from attnx.adapters.positions import Position, Positions, Word, group_words
from attnx.adapters.text import TokenizerState, prepare_prompt
from attnx.errors import InputError, in_a_line


@dataclass(frozen=True, eq=False)
class Expanded:
    """What a processor made of pictures and a text."""

    inputs: dict[str, Any]
    """As the model takes them, a batch of one."""
    text: str
    """With all that the processor wrote into it."""
    encoding: Any
    """The tokenizer's record; None where it keeps none."""


def expanded(processor: Any, pictures: Sequence[Any], text: str) -> Expanded:
    """Run the processor on pictures and a text; neither it nor its tokenizer is changed."""
    told = _Telling(processor.tokenizer)
    asked = copy.copy(processor)
    asked.tokenizer = told
    try:
        with TokenizerState(processor.tokenizer):
            given = asked(images=list(pictures), text=[text], return_tensors="pt")
    except Exception as error:
        raise InputError(
            f"{type(processor).__name__} cannot process the picture with the text ({in_a_line(error)}); does the text "
            f"name as many pictures ({image_token(processor)}) as there are?"
        ) from error
    if told.text is None:
        raise InputError(f"{type(processor).__name__} did not ask its tokenizer; give what it made, as a mapping")
    return Expanded(dict(given), told.text, told.encoding)


def image_token(processor: Any) -> str | None:
    """What stands for a picture in a text; None where the processor does not say."""
    token = getattr(processor, "image_token", None)
    return str(getattr(token, "content", token)) if token is not None else None


def pieces(text: str, token: str | None, written: str) -> list[tuple[int, int, int]] | None:
    """The pieces of a text between its pictures: where each begins in `written`, how long it is, where it begins in
    the text itself. None where they cannot be found."""
    parts = [text] if token is None else text.split(token)
    gap = 0 if token is None else len(token)
    result: list[tuple[int, int, int]] = []
    begin, at = 0, 0
    for number, part in enumerate(parts):
        last = number == len(parts) - 1 and number > 0
        place = written.rfind(part) if last else written.find(part, at)
        if place < at:
            return None
        result.append((place, len(part), begin))
        at, begin = place + len(part), begin + len(part) + gap
    return result


class _Telling:
    """A tokenizer that remembers what it was asked, and is else the one that it stands for."""

    def __init__(self, tokenizer: Any) -> None:
        self._inner = tokenizer
        self.text: str | None = None
        self.encoding: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __call__(self, text: Any = None, *args: Any, **kwargs: Any) -> Any:
        result = self._inner(text, *args, **{"verbose": False, **kwargs})
        several = [text] if isinstance(text, str) else text
        if several and isinstance(several[0], str):
            self.text = several[0]
            encodings = getattr(result, "encodings", None)
            self.encoding = encodings[0] if encodings else None
        return result


Process: TypeAlias = Callable[[Sequence[Any]], Tensor]
"""From the pictures to all their pixel values."""

_known: dict[tuple[Any, ...], list[tuple[int, Geometry] | None]] = {}
_MOST_KNOWN = 64


@dataclass(frozen=True)
class Patch:
    """What a position of a tower reads: a box on a sheet of a picture."""

    sheet: int
    box: Box
    row: int
    column: int
    picture: int | None = None
    """The number of the picture, from 0; None where it is all padding."""
    place: tuple[float, float, float, float] | None = None
    """The same in the original."""


@dataclass(frozen=True, eq=False)
class SheetLayout:
    """How pixel values lie: as sheets, or as patches in rows, the pictures one behind the other."""

    cells: tuple[tuple[tuple[int, int], ...], ...] = ()
    """Of each picture in rows: row and column of each of its patches."""
    patch: int = 0
    """Pixels on a side of such a patch."""

    def sheets(self, pixels: Tensor) -> list[Tensor]:
        """channel × height × width each."""
        if not self.cells:
            return list(pixels.reshape(-1, *pixels.shape[-3:])) if pixels.ndim in (4, 5) else []
        result, begin = [], 0
        for cells in self.cells:
            rows = pixels[begin : begin + len(cells)].reshape(len(cells), 3, -1, self.patch, self.patch)[:, :, 0]
            height, width = (self.patch * (1 + max(cell[axis] for cell in cells)) for axis in (0, 1))
            sheet = rows.new_zeros(3, height, width)
            for (down, across), row in zip(cells, rows, strict=True):
                top, left = down * self.patch, across * self.patch
                sheet[:, top : top + self.patch, left : left + self.patch] = row
            result.append(sheet)
            begin += len(cells)
        return result


def layout_of(
    pixels: Tensor, grids: Tensor | None, patch: Any, process: Process, pictures: Sequence[Any]
) -> SheetLayout:
    """Sheets as they are; of patches in rows, which stand in an order of the processor's own, their place by two ramps.

    `grids` is time × rows × columns of each picture.
    """
    if pixels.ndim != 2 or grids is None or not isinstance(patch, int) or pixels.shape[1] % (3 * patch * patch):
        return SheetLayout()
    ramps = [process([_ramp(image, axis) for image in pictures]).double().mean(1) for axis in (0, 1)]
    cells, begin = [], 0
    for count, rows, columns in grids.tolist():
        if count != 1 or any(ramp.shape != (len(pixels),) for ramp in ramps):
            return SheetLayout()
        down, across = (ramp[begin : begin + rows * columns] for ramp in ramps)
        places = [[0, 0] for _ in range(rows * columns)]
        for axis, (shades, others) in enumerate(((down, columns), (across, rows))):
            for rank, place in enumerate(shades.argsort(stable=True).tolist()):
                places[place][axis] = rank // others
        cells.append(tuple((index[0], index[1]) for index in places))
        begin += rows * columns
    return SheetLayout(tuple(cells), patch)


def _ramp(picture: Any, axis: int) -> Any:
    """From dark to bright, downwards or to the right."""
    from PIL import Image

    width, height = picture.size
    line = np.linspace(0, 255, height if axis == 0 else width).astype(np.uint8)
    shades = np.broadcast_to(line[:, None] if axis == 0 else line, (height, width))
    return Image.fromarray(np.ascontiguousarray(shades)).convert(picture.mode)


def patches_read(readers: Tensor, count: int, layout: SheetLayout) -> list[Patch | None]:
    """Of each position of the tower the box that it reads; None for tokens of its own.

    `readers` is in the shape of the pixels: the position that reads each of them.
    """
    patches: list[Patch | None] = [None] * count
    for number, sheet in enumerate(sheet[0] for sheet in layout.sheets(readers)):
        boxes = {}
        for position in sorted(set(sheet.flatten().tolist())):
            if position >= 0:
                down, across = (sheet == position).nonzero(as_tuple=True)
                boxes[position] = (int(across.min()), int(down.min()), int(across.max()) + 1, int(down.max()) + 1)
        tops, lefts = (sorted({box[axis] for box in boxes.values()}) for axis in (1, 0))
        for position, box in boxes.items():
            patches[position] = Patch(number, box, tops.index(box[1]), lefts.index(box[0]))
    return patches


def sheet_geometries(
    process: Process, pictures: Sequence[Any], layout: SheetLayout, key: tuple[Any, ...] | None = None
) -> list[tuple[int, Geometry] | None]:
    """For each sheet the number of its picture and its way from there; None where it is all padding, or bent."""
    name = None if key is None else (*key, *((image.size, image.mode) for image in pictures))
    if name is not None and name in _known:
        return _known[name]
    result = _measured(process, pictures, layout)
    if name is not None:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[name] = result
    return result


def _measured(process: Process, pictures: Sequence[Any], layout: SheetLayout) -> list[tuple[int, Geometry] | None]:
    result: list[tuple[int, Geometry] | None] = []
    for number, picture in enumerate(pictures):
        probed = _Probed(process, pictures, layout, number)
        count = len(probed.sheets(picture))
        result += [None] * (count - len(result))
        for sheet in range(count):
            if result[sheet] is None:
                geometry = measure_geometry(partial(probed.sheet, sheet), picture.size, picture.mode)
                result[sheet] = None if geometry is None else (number, geometry)
    return result


class _Probed:
    """What a processor makes of pictures when one of them is another, each made once."""

    def __init__(self, process: Process, pictures: Sequence[Any], layout: SheetLayout, number: int) -> None:
        self._process, self._pictures, self._layout, self._number = process, pictures, layout, number
        self._made: dict[bytes, list[Array]] = {}

    def sheets(self, probe: Any) -> list[Array]:
        name = probe.tobytes()
        if name not in self._made:
            others = [probe if place == self._number else image for place, image in enumerate(self._pictures)]
            self._made[name] = [sheet.double().numpy() for sheet in self._layout.sheets(self._process(others))]
        return self._made[name]

    def sheet(self, number: int, probe: Any) -> Array:
        return self.sheets(probe)[number]


def side_by_side(pictures: Sequence[Any]) -> tuple[Any, list[int]]:
    """All pictures on one canvas, and how far to the right each begins."""
    from PIL import Image

    if len(pictures) == 1:
        return pictures[0], [0]
    gap = max(4, max(one.size[0] for one in pictures) // 40)
    lefts = [sum(one.size[0] + gap for one in pictures[:number]) for number in range(len(pictures))]
    canvas = Image.new("RGB", (lefts[-1] + pictures[-1].size[0], max(one.size[1] for one in pictures)), "white")
    for left, image in zip(lefts, pictures, strict=True):
        canvas.paste(image, (left, 0))
    return canvas, lefts


def as_readers(readers: Tensor, length: int) -> Tensor:
    """Positions of the tower as positions of the whole input, which stand behind so many of the text."""
    return torch.where(readers >= 0, readers + length, -1)


TEXT, PICTURE = "text", "picture"
_IMAGES = ("image", "images")


def accepts_image_and_text(model: nn.Module) -> bool:
    """Whether a picture and a text go into the model, and text comes out of it."""
    takes = signature(model.forward).parameters
    generates = getattr(model, "can_generate", lambda: False)()
    return bool(generates) and {"input_ids", PIXELS} <= set(takes)


def is_image_text(given: Any) -> bool:
    """Whether a caller gave a picture and a text: {"image": …, "text": …}."""
    return isinstance(given, Mapping) and "text" in given and any(name in given for name in _IMAGES)


def prepare_image_text(model: nn.Module, processor: Any, given: Any, *, truncate: bool = False) -> PreparedInput:
    """Pictures and a text, as `{"image": picture, "text": text}`; a text alone is read as that of a decoder.

    `image` may be a list; the text has the processor's image token where each stands, or is a chat whose template puts
    it there. Where the text names no picture, they stand in front of it.
    """
    if not is_image_text(given):
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
    prepared = PreparedInput(
        inputs,
        positions,
        words,
        text,
        (*notes, *more),
        facts={
            "pictures": [
                [left, 0, left + image.size[0], image.size[1]] for left, image in zip(lefts, pictures, strict=True)
            ]
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


def last_text_position(model: nn.Module, processor: Any, prepared: PreparedInput) -> int:
    """The last token of the text, from which the next is predicted."""
    return prepared.text_length - 1


def _pictures(given: Mapping[str, Any]) -> tuple[list[Any], tuple[str, ...]]:
    named = next(name for name in _IMAGES if name in given)
    several = given[named] if isinstance(given[named], (list, tuple)) else [given[named]]
    if not several:
        raise InputError("the list of pictures is empty: give at least one, or the text alone")
    read = [load_image(one, 3) for one in several]
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
    batch = {name: input_ if name in joined else input_[None] for name, input_ in inputs.items()}
    accepted = signature(model.forward).parameters
    first = next(model.parameters())
    return find_projection(
        model,
        {
            name: tensor.to(first.device, first.dtype if tensor.is_floating_point() else tensor.dtype)
            for name, tensor in batch.items()
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
    patches: list[Patch | None] = []
    for one in read:
        way = None if one is None or one.sheet >= len(ways) else ways[one.sheet]
        if one is None or way is None:
            patches.append(one)
            continue
        number, geometry = way
        place = geometry.original(one.box)
        left = lefts[number]
        moved = None if place is None else (place[0] + left, place[1], place[2] + left, place[3])
        patches.append(replace(one, picture=number, place=moved))
    return patches


def _settings(processor: Any) -> str | None:
    settings = getattr(processor.image_processor, "to_json_string", None)
    return f"{type(processor)} {settings()}" if callable(settings) else None


def _with_patches(
    prepared: PreparedInput, projection: Projection, patches: Sequence[Patch | None], *, several: bool
) -> PreparedInput:
    """The positions of the tower behind those of the text, and on each image token the box of all that it reads."""
    length, words = len(prepared.positions), list(prepared.words)
    sheets = {
        one.picture: {other.sheet for other in patches if other is not None and other.picture == one.picture}
        for one in patches
        if one is not None
    }
    positions = [
        replace(position, box=_around([patches[place] for place in read])) if read else position
        for position, read in zip(prepared.positions, projection.reads, strict=True)
    ]
    placed = any(one is not None and one.place is not None for one in patches)
    for place, patch in enumerate(patches):
        index = length + place
        if patch is None:
            positions.append(Position(index, "[CLS]", special=True))
            continue
        tiles = sorted(sheets[patch.picture])
        token = f"r{patch.row}c{patch.column}"
        if len(tiles) > 1:
            token = f"tile {tiles.index(patch.sheet) + 1} {token}"
        if several and patch.picture is not None:
            token = f"picture {patch.picture + 1} {token}"
        if patch.place is None and placed:  # all padding: nothing of the picture is there
            positions.append(Position(index, token, special=True))
            continue
        words.append(Word(len(words), token, (index,)))
        positions.append(Position(index, token, box=patch.place, word=len(words) - 1))
    return replace(
        prepared,
        positions=Positions(positions),
        words=tuple(words),
        sequences={TEXT: length, PICTURE: len(patches)},
        readers=as_readers(projection.readers, length),
    )


def _around(patches: Sequence[Patch | None]) -> tuple[float, float, float, float] | None:
    """The least box around those of several patches."""
    places = [patch.place for patch in patches if patch is not None and patch.place is not None]
    if not places:
        return None
    lefts, tops, rights, bottoms = zip(*places, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)
