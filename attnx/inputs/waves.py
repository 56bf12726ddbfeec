"""Sound as people hand it over, be it a WAV file, samples, or a row of an audio data set, as one channel of samples."""

from __future__ import annotations

import os
import wave
from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from attnx.errors import InputError, first_line

Samples: TypeAlias = np.ndarray[Any, np.dtype[np.float32]]

_RATES = range(1_000, 400_001)
"""Samples a second that are sound at all."""


@dataclass(frozen=True, eq=False)
class Sound:
    """One channel of samples, from −1 to 1 where they are of a file."""

    samples: Samples
    rate: int
    """Samples a second."""

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate


def read_sound(given: Any, rate: int) -> tuple[Sound, tuple[str, ...]]:
    """The sound at the model's rate, and notes on what was changed on the way.

    Samples alone are taken to be of that rate already; a WAV file and `{"array": …, "sampling_rate": …}`, as data sets
    and pipelines have it, say their own.
    """
    if isinstance(given, (str, PathLike)):
        samples, own = _read_wave(given)
    elif isinstance(given, Mapping):
        samples, own = _of_mapping(given)
    else:
        samples, own = given, rate
    return _resampled(*_one_channel(samples), own, rate)


def names_sound(given: Any) -> bool:
    """Whether a string or a path can only mean a file of sound."""
    return isinstance(given, (str, PathLike)) and os.fspath(given).lower().endswith((".wav", ".wave"))


def _read_wave(path: str | PathLike[str]) -> tuple[Any, int]:
    if not names_sound(path):
        raise InputError(
            f"this model explains sound, not text; pass a WAV file, the samples of one channel, or "
            f"{{'array': samples, 'sampling_rate': rate}}; found {fspath(path)[:60]!r}"
        )
    if not Path(path).is_file():
        raise InputError(f"there is no sound file {fspath(path)!r}")
    try:
        with wave.open(fspath(path), "rb") as opened:
            width, channels, rate = opened.getsampwidth(), opened.getnchannels(), opened.getframerate()
            read = opened.readframes(opened.getnframes())
    except (wave.Error, EOFError, OSError) as error:
        raise InputError(
            f"{fspath(path)} is no WAV file of whole numbers ({first_line(error)}); save it as 16-bit PCM"
        ) from error
    return _numbers(read[: len(read) // (width * channels) * width * channels], width).reshape(-1, channels), rate


def _numbers(read: bytes, width: int) -> Any:
    """From −1 to 1; of one byte zero is 128, of more bytes 0."""
    if width == 1:
        return np.frombuffer(read, np.uint8).astype(np.float32) / 128 - 1
    if width == 3:
        parts = np.frombuffer(read, np.uint8).reshape(-1, 3)
        wide = np.zeros((len(parts), 4), np.uint8)
        wide[:, 1:] = parts
        return (wide.view("<i4")[:, 0] / 2**31).astype(np.float32)
    return (np.frombuffer(read, f"<i{width}") / 2 ** (8 * width - 1)).astype(np.float32)


def _of_mapping(given: Mapping[str, Any]) -> tuple[Any, int]:
    samples = given.get("array", given.get("raw"))
    rate = given.get("sampling_rate")
    if samples is None or not isinstance(rate, (int, np.integer)) or int(rate) not in _RATES:
        raise InputError(
            "sound with its rate is {'array': samples, 'sampling_rate': 16000}; found "
            f"{', '.join(map(str, given)) or 'nothing'}"
        )
    return samples, int(rate)


def _one_channel(given: Any) -> tuple[Samples, tuple[str, ...]]:
    """The samples, the mean of several channels; time is the longer axis."""
    try:
        samples = np.asarray(given.detach().cpu().float() if hasattr(given, "detach") else given, dtype=np.float32)
    except (TypeError, ValueError):
        samples = np.empty(0, dtype=np.float32)
    notes: tuple[str, ...] = ()
    if samples.ndim == 2 and samples.size:
        channels = samples if samples.shape[0] >= samples.shape[1] else samples.T
        if channels.shape[1] > 1:
            notes = (f"the sound has {channels.shape[1]} channels: their mean was read",)
        samples = channels.mean(1, dtype=np.float32)
    if samples.ndim != 1 or not len(samples):
        raise InputError("sound is given as the samples of one channel, a list or array of numbers, or as features")
    if not np.isfinite(samples).all():
        raise InputError("the sound has samples that are NaN or infinite; read it again")
    return samples, notes


def _resampled(samples: Samples, notes: tuple[str, ...], own: int, rate: int) -> tuple[Sound, tuple[str, ...]]:
    if own == rate:
        # A copy, so that the explanation does not change with what its owner does to the samples later.
        return Sound(samples.copy(), rate), notes
    from scipy.signal import resample_poly

    common = gcd(own, rate)
    made = resample_poly(samples, rate // common, own // common).astype(np.float32)
    return Sound(made, rate), (*notes, f"the sound of {own} Hz was resampled to the model's {rate} Hz")
