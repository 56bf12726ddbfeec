"""An image and a text that a decoder reads in one sequence: words as words, and patches with their boxes.

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
from attnx.adapters.image import Area, Array, Geometry, load_image, measure_geometry, vision_config
from attnx.adapters.image_tokens import PIXELS, Projection, find_projection
from attnx.adapters.model_config import generates
from attnx.adapters.positions import Position, Positions, Word, group_words
from attnx.adapters.text import Chat, TokenizerState, is_chat, prepare_prompt, render_chat
from attnx.errors import InputError, in_a_line

TEXT, PICTURE = "text", "picture"
_IMAGE_KEYS = ("image", "images")


def accepts_image_and_text(model: nn.Module) -> bool:
    """Whether an image and a text go into the model, and text comes out of it."""
    return generates(model) and {"input_ids", PIXELS} <= set(signature(model.forward).parameters)


def is_image_text(item: Any) -> bool:
    """Whether a caller gave an image and a text: {"image": …, "text": …}."""
    return isinstance(item, Mapping) and "text" in item and any(name in item for name in _IMAGE_KEYS)


def prepare_image_text(model: nn.Module, processor: Any, item: Any, *, truncate: bool = False) -> PreparedInput:
    """Images and a text, as `{"image": image, "text": text}`; a text alone is read as that of a decoder.

    `image` may be a list; the text has the processor's image token where each stands, or is a chat whose template puts
    it there. Where the text names no image, they stand in front of it.
    """
    if not is_image_text(item):
        return prepare_prompt(model, getattr(processor, "tokenizer", processor), item, truncate=truncate)
    if not hasattr(processor, "tokenizer") or not hasattr(processor, "image_processor"):
        raise InputError(
            f"an image with a text needs a processor of both, found {type(processor).__name__}; pass "
            "AutoProcessor.from_pretrained(…)"
        )
    value = item[next(name for name in _IMAGE_KEYS if name in item)]
    loaded = [load_image(image, 3) for image in (value if isinstance(value, (list, tuple)) else [value])]
    if not loaded:
        raise InputError("the list of images is empty: give at least one, or the text alone")
    images = [image for image, _ in loaded]
    text, placement = _text(processor, item["text"], len(images))
    processed = _process(processor, images, text)
    length = torch.as_tensor(processed.inputs["input_ids"]).shape[-1]
    tensors = {name: tensor for name, tensor in processed.inputs.items() if isinstance(tensor, Tensor)}
    # Tensors with a number for each position lose their batch axis; the others are joined.
    joined = frozenset(name for name, tensor in tensors.items() if tuple(tensor.shape) != (1, length))
    positions, words = _text_positions(processor, processed, text)
    projection = _projection(model, tensors)
    canvas, lefts = _side_by_side(images)
    prepared = PreparedInput(
        {name: tensor if name in joined else tensor[0] for name, tensor in tensors.items()},
        positions,
        words,
        text,
        tuple(dict.fromkeys(note for _, notes in loaded for note in notes)) + placement,
        facts={
            "pictures": [
                [left, 0, left + image.size[0], image.size[1]] for left, image in zip(lefts, images, strict=True)
            ]
        },
        image=canvas,
        joined=joined,
    )
    if projection is None:
        note = f"how patches become image tokens was not found in {type(model).__name__}: image tokens have no boxes"
        return replace(prepared, notes=(*prepared.notes, note))
    patches = _patches(model, processor, images, text, projection, lefts, tensors)
    return _with_patches(prepared, projection, patches, several=len(images) > 1)


def last_text_position(model: nn.Module, processor: Any, prepared: PreparedInput) -> int:
    """The last token of the text, from which the next is predicted."""
    return prepared.text_length - 1


def _image_token(processor: Any) -> str | None:
    """What stands for an image in a text; None where the processor does not say."""
    token = getattr(processor, "image_token", None)
    return str(getattr(token, "content", token)) if token is not None else None


def _text(processor: Any, text: Any, count: int) -> tuple[str, tuple[str, ...]]:
    """The text with a token where each image stands, and a note where it was added."""
    if isinstance(text, Chat) or is_chat(text):
        owner = processor if getattr(processor, "chat_template", None) else processor.tokenizer
        text = render_chat(owner, text if isinstance(text, Chat) else Chat(tuple(text)))
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"the text beside an image must be a text or a chat, found {type(text).__name__} {text!r:.40}")
    token = _image_token(processor)
    # PaliGemma's processor puts images in front of a text by itself.
    if token is None or type(processor).__name__ == "PaliGemmaProcessor" or text.count(token) == count:
        return text, ()
    if token in text:
        raise InputError(f"the text names {text.count(token)} images ({token}), and {count} are given")
    note = f"the text names no image: {count} stand{'s' if count == 1 else ''} before it; write {token} where"
    return f"{token * count} {text}", (f"{note} {'it' if count == 1 else 'each'} should be",)


@dataclass(frozen=True, eq=False)
class _Processed:
    """What a processor made of images and a text."""

    inputs: dict[str, Any]
    """As the model takes them, a batch of one."""
    text: str
    """With all that the processor inserted into it."""
    encoding: Any
    """The tokenizer's record; None where it keeps none."""


class _RecordingTokenizer:
    """A tokenizer that records what it tokenises, and else delegates to the one that it stands for."""

    def __init__(self, tokenizer: Any) -> None:
        self._inner = tokenizer
        self.text: str | None = None
        self.encoding: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __call__(self, text: Any = None, *args: Any, **kwargs: Any) -> Any:
        result = self._inner(text, *args, **{"verbose": False, **kwargs})
        texts = [text] if isinstance(text, str) else text
        if texts and isinstance(texts[0], str):
            encodings = getattr(result, "encodings", None)
            self.text, self.encoding = texts[0], encodings[0] if encodings else None
        return result


def _process(processor: Any, images: Sequence[Any], text: str) -> _Processed:
    """Run the processor on images and a text; neither it nor its tokenizer is changed."""
    recording = copy.copy(processor)
    recording.tokenizer = tokenizer = _RecordingTokenizer(processor.tokenizer)
    try:
        with TokenizerState(processor.tokenizer):
            inputs = recording(images=list(images), text=[text], return_tensors="pt")
    except Exception as error:
        raise InputError(
            f"{type(processor).__name__} cannot process the image with the text ({in_a_line(error)}); does the text "
            f"name as many images ({_image_token(processor)}) as there are?"
        ) from error
    if tokenizer.text is None:
        raise InputError(f"{type(processor).__name__} did not use its tokenizer; give what it made, as a mapping")
    return _Processed(dict(inputs), tokenizer.text, tokenizer.encoding)


def _text_positions(processor: Any, processed: _Processed, text: str) -> tuple[Positions, tuple[Word, ...]]:
    """The positions of the sequence; what the processor inserted into the text is special."""
    ids = processed.inputs["input_ids"][0].tolist()
    tokens = [
        token or f"<{index}>" for token, index in zip(processor.tokenizer.convert_ids_to_tokens(ids), ids, strict=True)
    ]
    pieces = _pieces(text, _image_token(processor), processed.text)
    encoding = processed.encoding
    if encoding is None or pieces is None or len(encoding.offsets) != len(ids):
        special = set(processor.tokenizer.all_special_ids)
        return group_words([Position(i, token, ids[i] in special) for i, token in enumerate(tokens)], None)

    def original(start: int, end: int) -> tuple[int, int] | None:
        """Where characters of the processed text stand in the original; None where they do not."""
        inside = (
            (start - at + begin, end - at + begin) for at, length, begin in pieces if at <= start < end <= at + length
        )
        return next(inside, None)

    positions = []
    for index, token in enumerate(tokens):
        span = None if encoding.special_tokens_mask[index] else original(*encoding.offsets[index])
        start, end = span or (None, None)
        positions.append(Position(index, token, special=span is None, start=start, end=end))
    return group_words(positions, [text])


def _pieces(text: str, token: str | None, processed: str) -> list[tuple[int, int, int]] | None:
    """The pieces of a text between its images: where each begins in `processed`, how long it is, where it begins in
    the text itself. None where they cannot be found."""
    parts = [text] if token is None else text.split(token)
    result: list[tuple[int, int, int]] = []
    begin, at = 0, 0
    for number, part in enumerate(parts):
        last = number == len(parts) - 1 and number > 0
        start = processed.rfind(part) if last else processed.find(part, at)
        if start < at:
            return None
        result.append((start, len(part), begin))
        at, begin = start + len(part), begin + len(part) + len(token or "")
    return result


def _projection(model: nn.Module, batch: Mapping[str, Tensor]) -> Projection | None:
    accepted, first = signature(model.forward).parameters, next(model.parameters())
    inputs = {
        name: tensor.to(first.device, first.dtype if tensor.is_floating_point() else tensor.dtype)
        for name, tensor in batch.items()
        if name in accepted
    }
    return find_projection(model, inputs)


def _side_by_side(images: Sequence[Any]) -> tuple[Any, list[int]]:
    """All images on one canvas, and how far to the right each begins."""
    from PIL import Image

    if len(images) == 1:
        return images[0], [0]
    gap = max(4, max(image.size[0] for image in images) // 40)
    lefts = [sum(image.size[0] + gap for image in images[:number]) for number in range(len(images))]
    canvas = Image.new("RGB", (lefts[-1] + images[-1].size[0], max(image.size[1] for image in images)), "white")
    for left, image in zip(lefts, images, strict=True):
        canvas.paste(image, (left, 0))
    return canvas, lefts


Process: TypeAlias = Callable[[Sequence[Any]], Tensor]
"""From the images to all their pixel values."""


@dataclass(frozen=True)
class _Patch:
    """What a position of a tower reads: a box on a sheet of an image."""

    sheet: int
    box: Box
    row: int
    column: int
    image: int | None = None
    """The number of the image, from 0; None where it is all padding."""
    area: Area | None = None
    """The same in the original."""


@dataclass(frozen=True, eq=False)
class SheetLayout:
    """How pixel values lie: as sheets, or as patches in rows, the images one behind the other."""

    cells: tuple[tuple[tuple[int, int], ...], ...] = ()
    """Of each image in rows: row and column of each of its patches."""
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


def _layout(pixels: Tensor, grids: Tensor | None, patch: Any, process: Process, images: Sequence[Any]) -> SheetLayout:
    """Sheets as they are; patches in rows stand in an order of the processor's own, which two ramps tell.

    `grids` is time × rows × columns of each image.
    """
    if pixels.ndim != 2 or grids is None or not isinstance(patch, int) or pixels.shape[1] % (3 * patch * patch):
        return SheetLayout()
    ramps = [process([_ramp(image, axis) for image in images]).double().mean(1) for axis in (0, 1)]
    cells, begin = [], 0
    for count, rows, columns in grids.tolist():
        if count != 1 or any(ramp.shape != (len(pixels),) for ramp in ramps):
            return SheetLayout()
        cells_of = [[0, 0] for _ in range(rows * columns)]
        for axis, (ramp, others) in enumerate(zip(ramps, (columns, rows), strict=True)):
            shades = ramp[begin : begin + rows * columns]
            for rank, index in enumerate(shades.argsort(stable=True).tolist()):
                cells_of[index][axis] = rank // others
        cells.append(tuple((row, column) for row, column in cells_of))
        begin += rows * columns
    return SheetLayout(tuple(cells), patch)


def _ramp(image: Any, axis: int) -> Any:
    """From dark to bright, downwards or to the right."""
    from PIL import Image

    width, height = image.size
    line = np.linspace(0, 255, height if axis == 0 else width).astype(np.uint8)
    shades = np.broadcast_to(line[:, None] if axis == 0 else line, (height, width))
    return Image.fromarray(np.ascontiguousarray(shades)).convert(image.mode)


_geometries: dict[tuple[Any, ...], list[tuple[int, Geometry] | None]] = {}


def _patches(
    model: nn.Module,
    processor: Any,
    images: Sequence[Any],
    text: str,
    projection: Projection,
    lefts: Sequence[int],
    inputs: Mapping[str, Tensor],
) -> list[_Patch | None]:
    """What each position of the tower reads, with its area on the canvas; None for tokens of its own."""

    def process(originals: Sequence[Any]) -> Tensor:
        pixels: Tensor = _process(processor, originals, text).inputs[PIXELS]
        return pixels

    patch_size = getattr(vision_config(model), "patch_size", None)
    layout = _layout(inputs[PIXELS], inputs.get("image_grid_thw"), patch_size, process, images)
    settings = getattr(processor.image_processor, "to_json_string", None)
    if callable(settings):
        key = (f"{type(processor)} {settings()}", text, *((image.size, image.mode) for image in images))
        if key not in _geometries:
            geometries = _sheet_geometries(process, images, layout)
            if len(_geometries) >= 64:
                _geometries.clear()
            _geometries[key] = geometries
        geometries = _geometries[key]
    else:
        geometries = _sheet_geometries(process, images, layout)
    patches: list[_Patch | None] = [None] * projection.patches
    for number, sheet in enumerate(sheet[0] for sheet in layout.sheets(projection.readers)):
        boxes = {}
        for position in sorted(set(sheet.flatten().tolist()) - {-1}):
            down, across = (sheet == position).nonzero(as_tuple=True)
            boxes[position] = (int(across.min()), int(down.min()), int(across.max()) + 1, int(down.max()) + 1)
        tops, lefts_of_boxes = (sorted({box[axis] for box in boxes.values()}) for axis in (1, 0))
        image, geometry = (geometries[number] if number < len(geometries) else None) or (None, None)
        for position, box in boxes.items():
            area = None if geometry is None else geometry.original(box)
            if area is not None and image is not None:
                area = (area[0] + lefts[image], area[1], area[2] + lefts[image], area[3])
            row, column = tops.index(box[1]), lefts_of_boxes.index(box[0])
            patches[position] = _Patch(number, box, row, column, image, area)
    return patches


def _sheet_geometries(
    process: Process, images: Sequence[Any], layout: SheetLayout
) -> list[tuple[int, Geometry] | None]:
    """For each sheet the number of its image and its map from there; None where it is all padding, or bent."""
    result: list[tuple[int, Geometry] | None] = []
    for number, image in enumerate(images):
        sheets = _probing(process, images, number, layout)
        result += [None] * (len(sheets(image)) - len(result))
        for index in range(len(sheets(image))):
            if result[index] is None:
                geometry = measure_geometry(partial(_nth, sheets, index), image.size, image.mode)
                result[index] = None if geometry is None else (number, geometry)
    return result


def _nth(sheets: Callable[[Any], list[Array]], index: int, probe: Any) -> Array:
    return sheets(probe)[index]


def _probing(process: Process, images: Sequence[Any], number: int, layout: SheetLayout) -> Callable[[Any], list[Array]]:
    """From an image that replaces this one to all sheets, each processed once."""
    probed: dict[bytes, list[Array]] = {}

    def sheets(probe: Any) -> list[Array]:
        name = probe.tobytes()
        if name not in probed:
            pixels = process([*images[:number], probe, *images[number + 1 :]])
            probed[name] = [sheet.double().numpy() for sheet in layout.sheets(pixels)]
        return probed[name]

    return sheets


def _with_patches(
    prepared: PreparedInput, projection: Projection, patches: Sequence[_Patch | None], *, several: bool
) -> PreparedInput:
    """The positions of the tower behind those of the text, and on each image token the box of all that it reads."""
    length, words = len(prepared.positions), list(prepared.words)
    sheets: dict[int | None, set[int]] = {}
    for patch in patches:
        if patch is not None:
            sheets.setdefault(patch.image, set()).add(patch.sheet)
    positions = [
        replace(position, box=_bounding_box([patches[patch] for patch in read])) if read else position
        for position, read in zip(prepared.positions, projection.reads, strict=True)
    ]
    located = any(patch is not None and patch.area is not None for patch in patches)
    for index, patch in enumerate(patches, start=length):
        if patch is None:
            positions.append(Position(index, "[CLS]", special=True))
            continue
        tiles = sorted(sheets[patch.image])
        token = f"r{patch.row}c{patch.column}"
        if len(tiles) > 1:
            token = f"tile {tiles.index(patch.sheet) + 1} {token}"
        if several and patch.image is not None:
            token = f"picture {patch.image + 1} {token}"
        if patch.area is None and located:  # all padding: nothing of the image is there
            positions.append(Position(index, token, special=True))
            continue
        words.append(Word(len(words), token, (index,)))
        positions.append(Position(index, token, box=patch.area, word=len(words) - 1))
    return replace(
        prepared,
        positions=Positions(positions),
        words=tuple(words),
        sequences={TEXT: length, PICTURE: len(patches)},
        readers=torch.where(projection.readers >= 0, projection.readers + length, -1),
    )


def _bounding_box(patches: Sequence[_Patch | None]) -> Area | None:
    areas = [patch.area for patch in patches if patch is not None and patch.area is not None]
    if not areas:
        return None
    lefts, tops, rights, bottoms = zip(*areas, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)
