"""From sound to model inputs, and positions that are stretches of time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attnx.errors import InputError
from attnx.inputs.adapter import Prepared
from attnx.inputs.positions import Position, group_words

RATE = 16_000
"""Samples a second, where the processor does not say."""


def reads_sound(model: nn.Module) -> bool:
    """Whether sound goes into the model, as frames of its spectrum."""
    return getattr(model, "main_input_name", "") == "input_features"


def prepare_sound(model: nn.Module, processor: Any, sound: Any, *, truncate: bool = False) -> Prepared:
    """Samples of one channel, or features that a processor made of them, and a position for each stretch of time.

    The model reads a fixed length: what is longer is an error unless `truncate` is true.
    """
    extractor = getattr(processor, "feature_extractor", processor)
    rate = getattr(extractor, "sampling_rate", RATE)
    notes: tuple[str, ...] = ()
    if isinstance(sound, Mapping) and "input_features" in sound:
        features = torch.as_tensor(sound["input_features"])
    else:
        samples, limit = _samples(sound), getattr(extractor, "n_samples", None)
        if limit is not None and len(samples) > limit:
            if not truncate:
                raise InputError(
                    f"the sound has {len(samples) / rate:.1f} seconds, the model reads {limit / rate:.1f}; cut it, or "
                    "let explain cut it: truncate=True"
                )
            notes = (f"the sound was cut to {limit / rate:.1f} of {len(samples) / rate:.1f} seconds",)
        features = extractor(samples, sampling_rate=rate, return_tensors="pt")["input_features"]
    features = features[0] if features.ndim == 3 and len(features) == 1 else features
    if features.ndim != 2:
        raise InputError(f"input_features must be those of one sound, channel × frame; found {tuple(features.shape)}")
    count = _positions(model, features)
    seconds = getattr(extractor, "hop_length", RATE // 100) / rate * features.shape[-1] / count
    positions, words = group_words([_stretch(place, seconds) for place in range(count)], None)
    return Prepared({"input_features": features}, positions, words, notes=notes)


def _stretch(place: int, seconds: float) -> Position:
    begin, end = place * seconds, (place + 1) * seconds
    return Position(place, f"{begin:.2f} s", time=(round(begin, 6), round(end, 6)))


def _positions(model: nn.Module, features: Tensor) -> int:
    """How many positions the encoder makes of the frames."""
    count = getattr(model.config, "max_source_positions", None)
    if not isinstance(count, int) or features.shape[-1] % count:
        raise InputError(
            f"{type(model).__name__} reads {count} positions, and {features.shape[-1]} frames do not make so many; "
            "process the sound with the model's own processor"
        )
    return count


def _samples(sound: Any) -> Any:
    try:
        samples = np.asarray(sound, dtype=np.float32)
    except (TypeError, ValueError):
        samples = np.empty(0, dtype=np.float32)
    if samples.ndim != 1 or not len(samples):
        raise InputError("sound is given as the samples of one channel, a list or array of numbers, or as features")
    return samples
