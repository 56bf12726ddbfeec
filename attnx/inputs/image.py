"""From an image to pixel values and patches as positions, each with its box in the original image."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attnx.errors import InputError, in_a_line
from attnx.inputs.adapter import Box, Prepared
from attnx.inputs.geometry import Geometry, measured_geometry
from attnx.inputs.model_facts import has_head
from attnx.inputs.patches import channels, check_channels, interpolation, patches_of
from attnx.inputs.picture import read_picture
from attnx.inputs.positions import Position, group_words
from attnx.inputs.text import TokenisedRow

_geometries: dict[tuple[str, tuple[int, int], str], Geometry | None] = {}
"""What was measured, by the processor's settings: images of one size need it once."""
_MOST_GEOMETRIES = 256


def prepare_image(
    model: nn.Module, processor: Any, image: Any, *, truncate: bool = False, interpolate: bool = False
) -> Prepared:
    """Process one image (or take processed `pixel_values` as they are) and name its patches by row and column.

    Processed pixels have no original: boxes are in the picture that they make up. With `interpolate` the model may be
    given another size than it was built for, square or not.
    """
    if isinstance(image, TokenisedRow):
        raise InputError("this is a vision model and explains images, not tokenised text; pass an image")
    notes: tuple[str, ...] = ()
    if isinstance(image, Mapping):
        pixels = _processed(image)
        check_channels(model, pixels)
        picture, geometry = _shown(processor, pixels), None
    else:
        picture, notes = read_picture(image, channels(model))
        process = partial(_process, _image_processor(processor))
        pixels = process(picture)
        check_channels(model, pixels)
        geometry, found = _geometry(processor, process, picture)
        notes += found
    options, interpolated = interpolation(model, pixels, interpolate)
    patches = patches_of(model, pixels)
    positions = [Position(index, token, special=True) for index, token in enumerate(patches.prefix)]
    boxes: list[Box | None] = [None] * len(positions)
    for token, box in patches.boxes():
        place = box if isinstance(image, Mapping) else None if geometry is None else geometry.original(box)
        positions.append(Position(len(positions), token, box=place))
        boxes.append(box)
    if min(picture.size[0] / patches.width, picture.size[1] / patches.height) < 1:
        notes += (f"the image, {picture.size[0]} × {picture.size[1]} pixels, is smaller than a patch; it was enlarged",)
    named, words = group_words(positions, None)
    return Prepared(
        {"pixel_values": pixels},
        named,
        words,
        notes=(*notes, *interpolated, *_pooling(model)),
        boxes=tuple(boxes),
        options=options,
        image=picture,
    )


def _pooling(model: nn.Module) -> tuple[str, ...]:
    """BEiT's and CLIP's classifiers read the mean of the patches, and CLS, explained by default, not at all."""
    pools = getattr(model.config, "use_mean_pooling", False) and has_head(model, "ForImageClassification")
    if pools or has_head(model, "CLIPForImageClassification", "MetaClip2ForImageClassification"):
        return (f"{type(model).__name__} classifies the mean of all patches: the view of [CLS] is not what it answers",)
    return ()


def _image_processor(processor: Any) -> Any:
    """The part that processes images, also of a processor that has a tokenizer as well."""
    inner = getattr(processor, "image_processor", processor)
    if not callable(inner) or hasattr(inner, "convert_ids_to_tokens"):
        raise InputError(
            f"an image needs an image processor, found {type(processor).__name__}; pass "
            "AutoImageProcessor.from_pretrained(…)"
        )
    return inner


def _process(processor: Any, picture: Any) -> Tensor:
    try:
        pixels = torch.as_tensor(processor(images=picture, return_tensors="pt")["pixel_values"])
    except Exception as error:  # whatever a processor of any making does with a picture that it cannot read
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


def _geometry(processor: Any, process: Any, picture: Any) -> tuple[Geometry | None, tuple[str, ...]]:
    settings = getattr(processor, "to_json_string", None)
    key = (f"{type(processor)} {settings()}", picture.size, picture.mode) if callable(settings) else None
    if key is not None and key in _geometries:
        geometry = _geometries[key]
    else:
        geometry = measured_geometry(lambda probe: process(probe).double().numpy(), picture.size, picture.mode)
    if key is not None:
        if len(_geometries) >= _MOST_GEOMETRIES:
            _geometries.clear()
        _geometries[key] = geometry
    if geometry is None:
        return None, (
            "the image processor does more than to scale, crop and pad, so patches have no box in the original image; "
            "explain its processed pixels to see them",
        )
    return geometry, ()


def _shown(processor: Any, pixels: Tensor) -> Any:
    """The picture that processed pixels make up, their normalisation undone as far as the processor tells it."""
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
