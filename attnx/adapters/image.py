"""Images: from files and arrays to pixel values, and patches as positions, each with its box in the original image."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import signature
from math import ceil, floor
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from attnx.adapters.adapter import Box, PreparedInput
from attnx.adapters.model_config import has_head
from attnx.adapters.positions import Position, group_words
from attnx.adapters.text import TokenizedInput
from attnx.arguments import path_of
from attnx.errors import InputError, first_line, in_a_line

if TYPE_CHECKING:
    from PIL.Image import Image

Array = np.ndarray[Any, np.dtype[Any]]
Area: TypeAlias = tuple[float, float, float, float]
"""Left, top, right and bottom in an original image."""

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")
"""What a string must end in to be taken for the path of an image and not for a text."""


def is_image_path(text: Any) -> bool:
    """Whether a string or a path can only mean an image file."""
    return isinstance(text, PathLike) or (isinstance(text, str) and text.lower().endswith(SUFFIXES))


def load_image(image: Any, channels: int = 3) -> tuple[Image, tuple[str, ...]]:
    """The image in RGB (gray for a model of one channel), and notes on what was lost on the way.

    Transparency is dropped, as transformers' pipelines do it. A photo's rotation flag is obeyed in a file, where
    pipelines obey it, and ignored in a PIL image, where image processors ignore it.
    """
    from PIL.Image import Image as PILImage

    if isinstance(image, (str, PathLike)):
        loaded = _open(image)
    elif isinstance(image, PILImage):
        loaded = image
    elif isinstance(image, Tensor):
        # numpy has no bfloat16.
        exact = image.float() if image.dtype == torch.bfloat16 else image
        loaded = _from_array(exact.detach().cpu().numpy(), channels_first=True)
    elif isinstance(image, np.ndarray):
        loaded = _from_array(image, channels_first=False)
    else:
        raise InputError(
            f"cannot explain {type(image).__name__} as an image: give a PIL image, a path, a numpy array, a torch "
            "tensor, or what the image processor made of one"
        )
    if 0 in loaded.size:
        raise InputError(f"the image is empty: {loaded.size[0]} × {loaded.size[1]} pixels")
    notes: tuple[str, ...] = ()
    if loaded.mode.startswith("I") or loaded.mode == "F":
        # Pillow would cut off at 255 where it should divide. Whole numbers of 32 bits (mode I) do not tell how many are
        # meant: 16 where 8 do not hold them.
        deep: Array = np.asarray(loaded)
        wide = loaded.mode.startswith("I;16") or (loaded.mode == "I" and deep.min() >= 0 and 255 < deep.max() < 2**16)
        loaded = _from_array(deep.astype(np.uint16) if wide else deep, channels_first=False)
    if loaded.has_transparency_data and loaded.convert("RGBA").getchannel("A").getextrema() != (255, 255):
        notes = ("the image has transparent parts: their colours were read as if they were not transparent",)
    mode = "L" if channels == 1 else "RGB"
    # A copy, so that the explanation does not change with what its owner draws on the image later.
    return loaded.convert(mode) if loaded.mode != mode else loaded.copy(), notes


def _open(path: str | PathLike[str]) -> Image:
    from PIL import Image, ImageOps

    try:
        exists = os.path.isfile(path)  # noqa: PTH113  (a long text is no path at all, which Path answers with an error)
    except (OSError, ValueError):
        exists = False
    if not is_image_path(path) and not exists:
        raise InputError(
            "this is a vision model and explains images, not text; pass a PIL image, the path of one, an array, or "
            "processed pixels"
        )
    if not Path(path_of(path)).is_file():
        raise InputError(f"there is no image file {fspath(path)!r}")
    try:
        with Image.open(path) as file:
            file.load()
            return ImageOps.exif_transpose(file)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise InputError(
            f"{fspath(path)} is no image that can be read ({first_line(error)}); save it as PNG or JPEG"
        ) from error


def _from_array(array: Array, channels_first: bool) -> Image:
    """Of height × width (× channel); where both readings fit, torch has channels first, numpy last."""
    from PIL import Image

    shape = " × ".join(map(str, array.shape))
    if array.ndim == 4 and array.shape[0] == 1:
        array = array[0]
    if array.ndim == 4:
        raise InputError(f"an array of {shape} is a batch of images; pass them as a list: list(images)")
    if array.ndim != 2:
        allowed = (1, 3, 4)
        if array.ndim != 3 or not (array.shape[0] in allowed or array.shape[-1] in allowed):
            raise InputError(f"an image is height × width, with 1, 3 or 4 channels before or behind; found {shape}")
        if array.shape[0] in allowed and (channels_first or array.shape[-1] not in allowed):
            array = array.transpose(1, 2, 0)
        array = array[..., 0] if array.shape[-1] == 1 else array
    return Image.fromarray(np.ascontiguousarray(_to_bytes(array)))


def _to_bytes(array: Array) -> Array:
    """Whole numbers from 0 to 255; fractions from 0 to 1 and 16 bits are stretched to them."""
    if array.dtype == np.bool_:
        return array.astype(np.uint8) * 255
    if array.dtype == np.uint8 or array.size == 0:
        return array.astype(np.uint8)
    if array.dtype == np.uint16:
        return np.round(array / 257).astype(np.uint8)
    if array.dtype.kind not in "iuf":
        raise InputError(f"an image is made of numbers, found an array of {array.dtype}")
    low, high = float(array.min()), float(array.max())
    if not (low >= 0 and high <= 255):
        raise InputError(
            f"an image has values from 0 to 255, or fractions from 0 to 1; found {low:.4g} to {high:.4g} (processed "
            "pixels go in as {'pixel_values': …})"
        )
    stretch = 255 if array.dtype.kind == "f" and high <= 1 else 1
    return np.round(array * stretch).astype(np.uint8)


@dataclass(frozen=True)
class Patches:
    """Which positions the model makes of an image of this size."""

    prefix: tuple[str, ...]
    rows: int
    columns: int
    height: int
    """Of one patch, in pixels."""
    width: int

    def boxes(self) -> list[tuple[str, Box]]:
        """Names and pixels of the patches in the order of their positions."""
        return [
            (
                f"r{row}c{column}",
                (column * self.width, row * self.height, (column + 1) * self.width, (row + 1) * self.height),
            )
            for row in range(self.rows)
            for column in range(self.columns)
        ]


_PREFIXES = {
    "cls_token": "[CLS]",
    "class_embedding": "[CLS]",
    "distillation_token": "[DIST]",
    "register_tokens": "[REG]",
}
"""Parameters that vision models put before the patches, and what their positions are called."""


def patches_of(model: nn.Module, pixels: Tensor) -> Patches:
    """How the model cuts `pixels`, channel × height × width, into patches."""
    patch = getattr(vision_config(model), "patch_size", None)
    if patch is None:
        raise InputError(f"{type(model).__name__} names no patch_size, so its positions cannot be placed in the image")
    height, width = _pair(patch)
    rows, columns = pixels.shape[-2] // height, pixels.shape[-1] // width
    if not rows or not columns:
        raise InputError(
            f"the image is {_by(pixels)} pixels when it reaches the model, smaller than one patch of {width} × "
            f"{height}; let the processor resize it (do_resize=True)"
        )
    counts = {}
    for name, parameter in model.named_parameters():
        *path, last = name.split(".")
        # A pooling head may have a token of its own, which is no position of the layers (AIMv2).
        if last in _PREFIXES and "head" not in path:
            counts[last] = parameter.shape[1] if parameter.ndim == 3 else 1
    prefix = tuple(token for name, token in _PREFIXES.items() for _ in range(counts.get(name, 0)))
    return Patches(prefix, rows, columns, height, width)


def interpolation(model: nn.Module, pixels: Tensor, flag: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The model's option for an image of another size than it was built for, and a note that it is."""
    built_for = getattr(vision_config(model), "image_size", None)
    if built_for is None or _pair(built_for) == tuple(pixels.shape[-2:]):
        return {}, ()
    height, width = _pair(built_for)
    note = f"the model was built for {width} × {height} pixels and got {_by(pixels)}: its position embeddings were "
    if "interpolate_pos_encoding" not in signature(model.forward).parameters:
        # Such a model interpolates by itself (DINOv2), has no embeddings of positions, or refuses the image.
        return {}, (note + "fitted by the model itself",)
    if flag:
        return {"interpolate_pos_encoding": True}, (note + "interpolated",)
    raise InputError(
        f"the image processor makes {_by(pixels)} pixels, {type(model).__name__} takes {width} × {height}: load both "
        "from the same checkpoint, or pass interpolate=True (--interpolate) to fit the position embeddings"
    )


def check_channels(model: nn.Module, pixels: Tensor) -> None:
    expected = channels(model)
    if pixels.ndim != 3:
        raise InputError(
            f"an image must reach the model as channel × height × width, found {' × '.join(map(str, pixels.shape))}: "
            "the processor cuts it into tiles or frames, which attnx does not follow"
        )
    if pixels.shape[0] != expected:
        raise InputError(
            f"the image has {pixels.shape[0]} channels when it reaches the model, {type(model).__name__} takes "
            f"{expected}: load the image processor from the model's own checkpoint"
        )


def channels(model: nn.Module) -> int:
    return int(getattr(vision_config(model), "num_channels", 3))


def vision_config(model: nn.Module) -> Any:
    """The config of the part that reads images: that of CLIP's vision tower is inside the one of the whole."""
    return getattr(model.config, "vision_config", model.config)


def _pair(size: Any) -> tuple[int, int]:
    height, width = size if isinstance(size, (tuple, list)) else (size, size)
    return int(height), int(width)


def _by(pixels: Tensor) -> str:
    return f"{pixels.shape[-1]} × {pixels.shape[-2]}"


def prepare_image(
    model: nn.Module, processor: Any, image: Any, *, truncate: bool = False, interpolate: bool = False
) -> PreparedInput:
    """Process one image (or take processed `pixel_values` as they are) and name its patches by row and column.

    Processed pixels have no original: boxes are in the image that they make up. With `interpolate` the model may get
    another size than it was built for, square or not.
    """
    if isinstance(image, TokenizedInput):
        raise InputError("this is a vision model and explains images, not tokenised text; pass an image")
    notes: tuple[str, ...] = ()
    if isinstance(image, Mapping):
        pixels = _processed(image)
        check_channels(model, pixels)
        original, geometry = _restored(processor, pixels), None
    else:
        original, notes = load_image(image, channels(model))
        process = partial(_process, _image_processor(processor))
        pixels = process(original)
        check_channels(model, pixels)
        geometry = _geometry(processor, process, original)
        if geometry is None:
            notes += (
                "the image processor does more than to scale, crop and pad, so patches have no box in the original "
                "image; explain its processed pixels to see them",
            )
    options, interpolated = interpolation(model, pixels, interpolate)
    patches = patches_of(model, pixels)
    positions = [Position(index, token, special=True) for index, token in enumerate(patches.prefix)]
    boxes: list[Box | None] = [None] * len(positions)
    for token, box in patches.boxes():
        area = box if isinstance(image, Mapping) else None if geometry is None else geometry.original(box)
        positions.append(Position(len(positions), token, box=area))
        boxes.append(box)
    if min(original.size[0] / patches.width, original.size[1] / patches.height) < 1:
        notes += (
            f"the image, {original.size[0]} × {original.size[1]} pixels, is smaller than a patch; it was enlarged",
        )
    pools = getattr(model.config, "use_mean_pooling", False) and has_head(model, "ForImageClassification")
    if pools or has_head(model, "CLIPForImageClassification", "MetaClip2ForImageClassification"):
        interpolated += (
            f"{type(model).__name__} classifies the mean of all patches: it does not predict from [CLS], which is "
            "explained by default",
        )
    named, words = group_words(positions, None)
    return PreparedInput(
        {"pixel_values": pixels},
        named,
        words,
        notes=(*notes, *interpolated),
        boxes=tuple(boxes),
        options=options,
        image=original,
    )


def _image_processor(processor: Any) -> Any:
    """The part that processes images, also of a processor that has a tokenizer as well."""
    inner = getattr(processor, "image_processor", processor)
    if not callable(inner) or hasattr(inner, "convert_ids_to_tokens"):
        raise InputError(
            f"an image needs an image processor, found {type(processor).__name__}; pass "
            "AutoImageProcessor.from_pretrained(…)"
        )
    return inner


def _process(processor: Any, image: Any) -> Tensor:
    try:
        pixels = torch.as_tensor(processor(images=image, return_tensors="pt")["pixel_values"])
    except Exception as error:  # whatever a processor of any making does with an image that it cannot read
        raise InputError(
            f"{type(processor).__name__} cannot process the image ({in_a_line(error)}); is it the image "
            "processor of this model?"
        ) from error
    return pixels[0] if pixels.ndim == 4 else pixels


def _processed(image: Mapping[str, Any]) -> Tensor:
    if "text" in image:
        raise InputError("this is a vision model, which reads an image and no text; give the image alone, not both")
    if "pixel_values" not in image:
        raise InputError(f"a processed image needs 'pixel_values', found {', '.join(map(str, image)) or 'nothing'}")
    pixels = torch.as_tensor(image["pixel_values"])
    pixels = pixels[0] if pixels.ndim == 4 else pixels
    if not bool(pixels.isfinite().all()):
        raise InputError("the processed image has pixels that are NaN or infinite; process it again")
    return pixels


def _restored(processor: Any, pixels: Tensor) -> Any:
    """The image that processed pixels make up, their normalisation undone as far as the processor tells it."""
    from PIL import Image

    processor = getattr(processor, "image_processor", processor)
    mean, deviation = getattr(processor, "image_mean", None), getattr(processor, "image_std", None)
    shades = pixels.detach().cpu().double().numpy()
    if mean is not None and deviation is not None and getattr(processor, "do_normalize", True):
        shades = shades * np.reshape(deviation, (-1, 1, 1)) + np.reshape(mean, (-1, 1, 1))
    low, high = shades.min(), shades.max()
    if low < -0.01 or high > 1.01:
        shades = (shades - low) / max(high - low, 1e-12)
    bytes_ = np.round(255 * np.clip(shades, 0, 1)).astype(np.uint8).transpose(1, 2, 0)
    return Image.fromarray(bytes_[..., 0] if bytes_.shape[-1] == 1 else np.ascontiguousarray(bytes_[..., :3]))


Process: TypeAlias = Callable[[Any], Array]
"""From a PIL image to its pixel values, channel × height × width."""


@dataclass(frozen=True)
class Axis:
    """One axis of the map from the original to the pixel values: `pixel = scale · original + shift`."""

    scale: float
    shift: float
    length: int
    """Of the original, in pixels."""

    def original(self, start: float, end: float) -> tuple[float, float] | None:
        """The part of the original under the pixels from `start` to `end`; None where they are all padding."""
        low, high = ((edge - self.shift) / self.scale for edge in (start, end))
        low, high = max(low, 0.0), min(high, float(self.length))
        return (low, high) if high - low > 1e-6 else None


@dataclass(frozen=True)
class Geometry:
    """Where an image lies in the pixel values that its processor makes."""

    x: Axis
    y: Axis

    def original(self, box: Area) -> Area | None:
        """The box in the original image under a box of the pixel values; None where that is all padding."""
        left, top, right, bottom = box
        across, down = self.x.original(left, right), self.y.original(top, bottom)
        return None if across is None or down is None else (across[0], down[0], across[1], down[1])


_geometries: dict[tuple[str, tuple[int, int], str], Geometry | None] = {}
"""What was measured, by the processor's settings: images of one size need it once."""


def _geometry(processor: Any, process: Any, image: Any) -> Geometry | None:
    def measure() -> Geometry | None:
        return measure_geometry(lambda probe: process(probe).double().numpy(), image.size, image.mode)

    settings = getattr(processor, "to_json_string", None)
    if not callable(settings):
        return measure()
    key = (f"{type(processor)} {settings()}", image.size, image.mode)
    if key not in _geometries:
        geometry = measure()
        if len(_geometries) >= 256:
            _geometries.clear()
        _geometries[key] = geometry
    return _geometries[key]


def measure_geometry(process: Process, size: tuple[int, int], mode: str) -> Geometry | None:
    """How images of this (width, height) and mode are placed in the pixel values.

    None where the processor does more than to scale, crop and pad, so that columns and rows stay no columns and rows.
    """
    width, height = size
    dark, bright = (process(_painted(np.full(1, shade), size, mode)) for shade in (0.0, 1.0))
    if dark.ndim != 3 or dark.shape != bright.shape:
        return None
    contrast = bright - dark
    visible = np.abs(contrast) > 1e-6 * max(np.abs(contrast).max(), 1e-12)

    def profile(shades: Array, axis: int) -> Array:
        """Per pixel along the axis, how bright a line of shades is there: 0 to 1, and NaN where there is padding."""
        pixels = process(_painted(shades[:, None] if axis == 0 else shades, size, mode))
        if pixels.shape != dark.shape:
            return np.full(dark.shape[1 + axis], np.nan)
        share = np.where(visible, (pixels - dark) / np.where(visible, contrast, 1), np.nan)
        lines = np.moveaxis(share, 1 + axis, 0).reshape(dark.shape[1 + axis], -1)
        covered = ~np.isnan(lines).all(1)
        result = np.full(len(lines), np.nan)
        result[covered] = np.nanmedian(lines[covered], axis=1)
        return result

    across = _measured_axis(lambda shades: profile(shades, 1), width)
    down = _measured_axis(lambda shades: profile(shades, 0), height)
    return None if across is None or down is None else Geometry(across, down)


def _measured_axis(profile: Callable[[Array], Array], length: int) -> Axis | None:
    """A ramp finds roughly what is seen of the axis; a bar in the middle of that finds it to a part of a pixel."""
    if length < 4:  # a few pixels make no ramp: all of them are taken to fill all that is not padding
        covered = np.flatnonzero(~np.isnan(profile(np.ones(length))))
        if not len(covered):
            return None
        first, last = float(covered[0]), float(covered[-1])
        return Axis((last + 1 - first) / length, first, length)
    ramp = length * profile((np.arange(length) + 0.5) / length)  # in the original, NaN at padding
    if np.isnan(ramp).all():
        return None
    first, last = float(np.nanmin(ramp)), float(np.nanmax(ramp))
    quarter = max(1, round((last - first) / 4))
    start, end = floor(first) + quarter, ceil(last) - quarter
    if end - start < 1:
        return None
    bar = np.zeros(length)
    bar[start:end] = 1
    line = _line_through(profile(bar), start, end)
    return None if line is None or not _agrees(line, ramp) else _in_whole_pixels(line, (first, last), length)


def _line_through(profile: Array, start: int, end: int) -> tuple[float, float] | None:
    """Scale and shift, when a bar from `start` to `end` looks like this.

    Resampling blurs the edges of the bar but keeps how much is dark on either side of it, so that an edge is found much
    more exactly than a pixel.
    """
    covered = np.flatnonzero(~np.isnan(profile))
    bright = np.nan_to_num(profile)
    if not len(covered) or bright.max() < 0.5:
        return None
    middle = round(float(np.flatnonzero(bright > 0.5).mean()))
    dark = 1 - profile
    left = covered[0] + np.nansum(dark[:middle])
    right = covered[-1] + 1 - np.nansum(dark[middle:])
    scale = (right - left) / (end - start)
    return (float(scale), float(left - scale * start)) if scale > 0 else None


def _agrees(line: tuple[float, float], ramp: Array) -> bool:
    """Whether the ramp is where the line says, but for its 256 shades and for what resampling bends at its ends."""
    scale, shift = line
    off = np.abs(scale * ramp + shift - np.arange(len(ramp)) - 0.5)
    bent = 3 * max(1.0, scale) + scale * len(ramp) / 64
    return bool(np.nanmax(off) <= bent + scale * np.nanmax(ramp) / 128)


def _in_whole_pixels(line: tuple[float, float], ends: tuple[float, float], length: int) -> Axis:
    """The line that resizing to a whole number of pixels and moving by whole pixels gives, if it agrees."""
    scale, shift = line

    def distance(resized: int, moved: int) -> float:
        return max(abs(end * (scale - resized / length) + shift - moved) for end in ends)

    middle = sum(ends) / 2
    near = [max(1, round(scale * length) + step) for step in (0, 1, -1, 2, -2)]
    lines = [(resized, round(middle * (scale - resized / length) + shift)) for resized in near]
    resized, moved = min(lines, key=lambda candidate: distance(*candidate))
    if distance(resized, moved) < 0.4:
        return Axis(resized / length, float(moved), length)
    return Axis(scale, shift, length)


def _painted(shades: Array, size: tuple[int, int], mode: str) -> Any:
    """An image of this size whose lines are these shades between 0 and 1."""
    from PIL import Image

    line = np.round(255 * shades).astype(np.uint8)
    return Image.fromarray(np.ascontiguousarray(np.broadcast_to(line, size[::-1]))).convert(mode)
