"""The spectrum of a sound to look at: loudness over time and pitch, pitch as the ear and mel channels divide it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from attnx.inputs.waves import Sound

Array = np.ndarray[Any, np.dtype[Any]]

_WINDOW, _HOP = 0.025, 0.01
"""Seconds that are heard together, and from one column to the next."""
_RANGE = 60.0
"""Decibels from the loudest to black."""


def spectrum(sound: Sound, rows: int = 96) -> Array:
    """row × column from 0 to 1, the lowest pitch first."""
    window, hop = max(8, round(_WINDOW * sound.rate)), max(1, round(_HOP * sound.rate))
    samples = np.pad(sound.samples.astype(np.float64), (window // 2, window))
    starts = np.arange(0, max(1, len(sound.samples)), hop)
    frames = np.stack([samples[start : start + window] for start in starts]) * np.hanning(window)
    power = np.abs(np.fft.rfft(frames, n=max(window, 4 * rows))) ** 2
    frequencies = np.linspace(0, sound.rate / 2, power.shape[1])
    edges = np.searchsorted(_mel(frequencies), np.linspace(0, _mel(sound.rate / 2), rows + 1))
    bands = [power[:, low : max(high, low + 1)].mean(1) for low, high in pairwise(edges)]
    loudness = 10 * np.log10(np.stack(bands) + 1e-12)
    shades: Array = np.clip(1 + (loudness - loudness.max()) / _RANGE, 0, 1)
    return shades


def _mel(hertz: Any) -> Any:
    return 1127 * np.log1p(np.asarray(hertz) / 700)
