"""From an image to pixel values and patches as positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from attnx.adapters.adapter import Box, Prepared
from attnx.errors import InputError
from attnx.positions import Position, group_words

_PREFIXES = {
    "cls_token": "[CLS]",
    "class_embedding": "[CLS]",
    "distillation_token": "[DIST]",
    "register_tokens": "[REG]",
}
"""Parameters that vision models put before the patches, and what their positions are called."""


def prepare_image(model: nn.Module, processor: Any, image: Any, *, truncate: bool = False) -> Prepared:
    """Process one image (or take processed `pixel_values` as they are) and name its patches by row and column."""
    pixels = _pixels(processor, image)
    tokens = [(token, True) for token in _prefix(model)]
    height, width = _patch_size(model)
    rows, columns = pixels.shape[-2] // height, pixels.shape[-1] // width
    grid = [(row, column) for row in range(rows) for column in range(columns)]
    boxes: list[Box | None] = [None] * len(tokens)
    boxes += [(column * width, row * height, (column + 1) * width, (row + 1) * height) for row, column in grid]
    tokens += [(f"r{row}c{column}", False) for row, column in grid]
    positions, words = group_words([Position(i, token, special) for i, (token, special) in enumerate(tokens)], None)
    return Prepared({"pixel_values": pixels}, positions, words, boxes=tuple(boxes))


def _pixels(processor: Any, image: Any) -> Tensor:
    if isinstance(image, str):
        raise InputError(
            "this is a vision model and explains images, not text; pass a PIL image, an array, or processed pixels"
        )
    if isinstance(image, Mapping):
        if "pixel_values" not in image:
            raise InputError(f"a processed image needs 'pixel_values', found {', '.join(map(str, image)) or 'nothing'}")
        pixels = torch.as_tensor(image["pixel_values"])
        return pixels[0] if pixels.ndim == 4 else pixels
    if not callable(processor):
        raise InputError("an image needs an image processor; pass AutoImageProcessor.from_pretrained(…)")
    try:
        pixels = processor(images=image, return_tensors="pt")["pixel_values"]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{type(processor).__name__} cannot process {type(image).__name__} as an image: {error}"
        ) from error
    first: Tensor = pixels[0]
    return first


def _prefix(model: nn.Module) -> list[str]:
    found = {}
    for name, parameter in model.named_parameters():
        last = name.rpartition(".")[2]
        if last in _PREFIXES:
            found[last] = parameter.shape[1] if parameter.ndim == 3 else 1
    return [token for name, token in _PREFIXES.items() for _ in range(found.get(name, 0))]


def _patch_size(model: nn.Module) -> tuple[int, int]:
    patch = getattr(getattr(model.config, "vision_config", model.config), "patch_size", None)
    if patch is None:
        raise InputError(f"{type(model).__name__} names no patch_size, so its positions cannot be placed in the image")
    height, width = patch if isinstance(patch, (tuple, list)) else (patch, patch)
    return height, width
