"""An image as people hand it over, be it a file, an array, a tensor or a PIL image, as one PIL picture."""

from __future__ import annotations

import os
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from attnx.arguments import path_of
from attnx.errors import InputError, first_line

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")
"""What a string must end in to be taken for the path of an image and not for a text."""

Array = np.ndarray[Any, np.dtype[Any]]


def read_picture(image: Any, channels: int = 3) -> tuple[Image, tuple[str, ...]]:
    """The picture in RGB (gray for a model of one channel), and notes on what was lost on the way.

    Transparency is dropped, as transformers' pipelines do it. A photo's rotation flag is obeyed in a file, where
    pipelines obey it, and ignored in a PIL image, where image processors ignore it.
    """
    from PIL.Image import Image as Picture

    if isinstance(image, (str, PathLike)):
        picture = _open(image)
    elif isinstance(image, Picture):
        picture = image
    elif isinstance(image, Tensor):
        # numpy has no bfloat16.
        exact = image.float() if image.dtype == torch.bfloat16 else image
        picture = _from_array(exact.detach().cpu().numpy(), channels_first=True)
    elif isinstance(image, np.ndarray):
        picture = _from_array(image, channels_first=False)
    else:
        raise InputError(
            f"cannot explain {type(image).__name__} as an image: give a PIL image, a path, a numpy array, a torch "
            "tensor, or what the image processor made of one"
        )
    if 0 in picture.size:
        raise InputError(f"the image is empty: {picture.size[0]} × {picture.size[1]} pixels")
    return _converted(picture, "L" if channels == 1 else "RGB")


def names_image(text: Any) -> bool:
    """Whether a string or a path can only mean an image file."""
    return isinstance(text, PathLike) or (isinstance(text, str) and text.lower().endswith(SUFFIXES))


def _open(path: str | PathLike[str]) -> Image:
    from PIL import Image, ImageOps

    if not names_image(path) and not _is_file(path):
        raise InputError(
            "this is a vision model and explains images, not text; pass a PIL image, the path of one, an array, or "
            "processed pixels"
        )
    if not Path(path_of(path)).is_file():
        raise InputError(f"there is no image file {fspath(path)!r}")
    try:
        with Image.open(path) as opened:
            opened.load()
            return ImageOps.exif_transpose(opened)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise InputError(
            f"{fspath(path)} is no image that can be read ({first_line(error)}); save it as PNG or JPEG"
        ) from error


def _is_file(text: str | PathLike[str]) -> bool:
    try:
        return os.path.isfile(text)  # noqa: PTH113  (a long text is no path at all, which Path answers with an error)
    except (OSError, ValueError):
        return False


def _from_array(array: Array, channels_first: bool) -> Image:
    from PIL import Image

    shape = " × ".join(map(str, array.shape))
    if array.ndim == 4 and array.shape[0] == 1:
        array = array[0]
    if array.ndim == 4:
        raise InputError(f"an array of {shape} is a batch of images; pass them as a list: list(images)")
    array = _channels_last(array, channels_first, shape)
    return Image.fromarray(np.ascontiguousarray(_bytes(array)))


def _channels_last(array: Array, channels_first: bool, shape: str) -> Array:
    """height × width, or height × width × channel; where both readings fit, torch has channels first, numpy last."""
    if array.ndim == 2:
        return array
    allowed = (1, 3, 4)
    if array.ndim != 3 or not (array.shape[0] in allowed or array.shape[-1] in allowed):
        raise InputError(f"an image is height × width, with 1, 3 or 4 channels before or behind; found {shape}")
    first = array.shape[0] in allowed and (channels_first or array.shape[-1] not in allowed)
    array = array.transpose(1, 2, 0) if first else array
    return array[..., 0] if array.shape[-1] == 1 else array


def _bytes(array: Array) -> Array:
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


def _converted(picture: Image, mode: str) -> tuple[Image, tuple[str, ...]]:
    notes: tuple[str, ...] = ()
    if picture.mode.startswith("I") or picture.mode == "F":
        picture = _from_array(_deep(picture), channels_first=False)
    if picture.has_transparency_data:
        alpha = picture.convert("RGBA").getchannel("A").getextrema()
        if alpha != (255, 255):
            notes = ("the image has transparent parts: their colours were read as if they were not transparent",)
    # A copy, so that the explanation does not change with what its owner draws on the picture later.
    return picture.convert(mode) if picture.mode != mode else picture.copy(), notes


def _deep(picture: Image) -> Array:
    """More than 8 bits, which Pillow would cut off at 255 where it should divide.

    Whole numbers of 32 bits (mode I) do not tell how many are meant: 16 where 8 do not hold them.
    """
    deep: Array = np.asarray(picture)
    sixteen = picture.mode.startswith("I;16") or (picture.mode == "I" and deep.min() >= 0 and 255 < deep.max() < 2**16)
    return deep.astype(np.uint16) if sixteen else deep
