"""The positions of a vision transformer: tokens of its own first, then the patches of the image, row by row."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature
from typing import Any

from torch import Tensor, nn

from attnx.errors import InputError
from attnx.inputs.adapter import Box

_PREFIXES = {
    "cls_token": "[CLS]",
    "class_embedding": "[CLS]",
    "distillation_token": "[DIST]",
    "register_tokens": "[REG]",
}
"""Parameters that vision models put before the patches, and what their positions are called."""


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


def patches_of(model: nn.Module, pixels: Tensor) -> Patches:
    """How the model cuts `pixels`, channel × height × width, into patches."""
    config = vision_config(model)
    patch = getattr(config, "patch_size", None)
    if patch is None:
        raise InputError(f"{type(model).__name__} names no patch_size, so its positions cannot be placed in the image")
    height, width = _pair(patch)
    rows, columns = pixels.shape[-2] // height, pixels.shape[-1] // width
    if not rows or not columns:
        raise InputError(
            f"the image is {_by(pixels)} pixels when it reaches the model, smaller than one patch of {width} × "
            f"{height}; let the processor resize it (do_resize=True)"
        )
    return Patches(_prefix(model), rows, columns, height, width)


def interpolation(model: nn.Module, pixels: Tensor, asked: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What a model must be told when the image is of another size than it was built for, and a note that it is."""
    built_for = getattr(vision_config(model), "image_size", None)
    if built_for is None or _pair(built_for) == tuple(pixels.shape[-2:]):
        return {}, ()
    height, width = _pair(built_for)
    note = f"the model was built for {width} × {height} pixels and got {_by(pixels)}: its position embeddings were "
    if "interpolate_pos_encoding" not in signature(model.forward).parameters:
        # Such a model interpolates by itself (DINOv2), has no embeddings of positions, or refuses the image.
        return {}, (note + "fitted by the model itself",)
    if asked:
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


def _prefix(model: nn.Module) -> tuple[str, ...]:
    found = {}
    for name, parameter in model.named_parameters():
        *path, last = name.split(".")
        # A pooling head may have a token of its own, which is no position of the layers (AIMv2).
        if last in _PREFIXES and "head" not in path:
            found[last] = parameter.shape[1] if parameter.ndim == 3 else 1
    return tuple(token for name, token in _PREFIXES.items() for _ in range(found.get(name, 0)))


def _pair(size: Any) -> tuple[int, int]:
    height, width = size if isinstance(size, (tuple, list)) else (size, size)
    return int(height), int(width)


def _by(pixels: Tensor) -> str:
    return f"{pixels.shape[-1]} × {pixels.shape[-2]}"
