"""Inputs for a model, made from what its `forward` takes; pixels and sound in each shape that models read them in."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import Parameter, signature
from typing import Any

import torch

LENGTH = 9
SIDE = 4
"""Patches of an image, where they are given in a row."""


def inputs_for(model: Any) -> Iterator[dict[str, torch.Tensor]]:
    """Keyword arguments that the model may run on, the likeliest first."""
    takes = signature(model.forward).parameters
    main = getattr(model, "main_input_name", "input_ids")
    text, signals = {}, [name for name in (main,) if name in takes and name != "input_ids"]
    if "input_ids" in takes and (main == "input_ids" or "decoder_input_ids" not in takes):
        text = _text(set(takes))
    needed = [
        name for name, one in takes.items() if one.default is Parameter.empty and one.kind is one.POSITIONAL_OR_KEYWORD
    ]
    signals += [name for name in needed if name not in (*text, *signals)]
    if "pixel_values" in takes and "pixel_values" not in signals and _reads_both(model.config):
        signals.append("pixel_values")
    if not text and not signals and "inputs_embeds" in takes:
        signals.append("inputs_embeds")
    if "grid_thw" in takes:
        yield _patches_of_a_grid(model)
    if "spatial_shapes" in takes:
        yield _patches_of_a_shape(model.config)
    yield {**text, **{name: _shaped(name, model.config)[0] for name in signals}}
    for name in signals:
        for other in _shaped(name, model.config)[1:]:
            yield {**text, **{one: other if one == name else _shaped(one, model.config)[0] for one in signals}}


def _text(takes: set[str]) -> dict[str, torch.Tensor]:
    ids = torch.randint(5, 90, (1, LENGTH), generator=torch.Generator().manual_seed(1))
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "bbox": torch.zeros(1, LENGTH, 4).long()}
    return {name: value for name, value in given.items() if name in takes}


def _reads_both(config: Any) -> bool:
    """Whether a text and an image go in side by side; where an image token is known, images go into the text."""
    tokens = any(hasattr(config, name) for name in ("image_token_id", "image_token_index", "boi_token_id"))
    return hasattr(config, "text_config") and hasattr(config, "vision_config") and not tokens


def _patches_of_a_grid(model: Any) -> dict[str, torch.Tensor]:
    """Patches in a row, as the vision towers of Qwen's kind take them."""
    config = model.config
    width = _channels(config) * getattr(config, "temporal_patch_size", 1) * config.patch_size**2
    first = next(iter(signature(model.forward).parameters))
    return {first: _drawn(SIDE * SIDE, width), "grid_thw": torch.tensor([[1, SIDE, SIDE]])}


def _patches_of_a_shape(config: Any) -> dict[str, torch.Tensor]:
    """Patches in a row, as those of SigLIP 2's kind take them."""
    return {
        "pixel_values": _drawn(1, SIDE * SIDE, _channels(config) * config.patch_size**2),
        "pixel_attention_mask": torch.ones(1, SIDE * SIDE, dtype=torch.long),
        "spatial_shapes": torch.tensor([[SIDE, SIDE]]),
    }


def _shaped(name: str, config: Any) -> list[torch.Tensor]:
    """Pixels, sound or states in the shapes that the config allows."""
    if name.startswith("pixel_values"):
        size = getattr(config, "image_size", None) or getattr(getattr(config, "vision_config", None), "image_size", 32)
        size = tuple(size) if isinstance(size, (tuple, list)) else (size, size)
        frames = getattr(config, "num_frames", None) or getattr(config, "frames_per_clip", None) or 2
        still, moving = (1, _channels(config), *size), (1, frames, _channels(config), *size)
        shapes = [moving, still] if hasattr(config, "num_frames") else [still, moving]
    elif name in ("input_features", "input_values"):
        bins = _first(config, "feature_projection_input_dim", "num_mel_bins", "input_feat_per_channel", "feature_size")
        positions = getattr(config, "max_source_positions", None) or 16
        spectra = [(1, 24, bins), (1, bins, 2 * positions), (1, bins, 24), (1, 1, 24, bins)]
        if hasattr(config, "frequency_stride"):
            spectra.insert(0, (1, config.max_length, bins))
        shapes = (
            [*spectra, (1, 4000)]
            if name == "input_features" or len(spectra) > 4
            else [(1, 4000), (1, 1, 4000), *spectra]
        )
    elif name.endswith(("ids", "id")):
        return [torch.randint(5, 90, (1, LENGTH), generator=torch.Generator().manual_seed(1))]
    else:
        width = _first(config, "hidden_size", "d_model", "embed_dim")
        shapes = [(1, LENGTH, width), (LENGTH, width)]
    return [_drawn(*shape) for shape in shapes]


def _first(config: Any, *names: str) -> int:
    return next((value for name in names if isinstance(value := getattr(config, name, None), int)), 16)


def _channels(config: Any) -> int:
    return int(getattr(config, "in_channels", None) or getattr(config, "num_channels", None) or 3)


def _drawn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))
