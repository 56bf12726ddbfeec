"""Sounds with one planted tone: its pitch is the class, and nothing else in the sound depends on it.

Two seconds of hum and noise have four short tones, as long and as loud as one another, each at a time of its own. The
pitch of one is the class; the pitches of the three others stand for no class, and are drawn alike for all of them. So
what is loud does not tell the class: what decides is in the stretches of the planted tone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnx.errors import InputError

RATE = 16_000
"""Samples a second."""
SECONDS = 2.0
TONE = 0.16
"""Seconds that a tone lasts."""
DECOYS = 3
"""Other tones in each sound: as striking as the planted one, and the same in all classes."""

PITCHES = {"300 Hz": 300.0, "600 Hz": 600.0, "1200 Hz": 1200.0, "2400 Hz": 2400.0}
LABELS = tuple(PITCHES)
DECOY_PITCHES = (425.0, 850.0, 1700.0, 3400.0)
"""Half an octave from those that are classes."""

_SLOT = 0.24
"""Seconds that a tone has for itself: it begins at any moment of them that leaves it room."""
_FADE = 0.02
"""Seconds in which a tone grows and dies."""

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class Planted:
    """A sound, its class, and when the tone is heard that tells it."""

    sound: Array
    """Samples of one channel, `RATE` a second."""
    label: str
    start: float
    """In seconds."""

    @property
    def end(self) -> float:
        return self.start + TONE

    def filled(self, times: Sequence[tuple[float, float]]) -> tuple[int, ...]:
        """Which of these stretches of time the tone fills by half or more."""
        return tuple(
            number
            for number, (start, end) in enumerate(times)
            if min(end, self.end) - max(start, self.start) >= (end - start) / 2
        )


def generate(count: int, *, seed: int = 0) -> list[Planted]:
    """So many sounds, the same for the same seed.

    >>> one = generate(1, seed=3)[0]
    >>> one.label, round(one.start, 3), len(one.sound)
    ('300 Hz', 1.279, 32000)
    """
    if count < 1:
        raise InputError(f"count must be at least 1, found {count}")
    sounds, labels, starts = draw(count, np.random.default_rng(seed))
    return [
        Planted(sound, LABELS[label], float(start)) for sound, label, start in zip(sounds, labels, starts, strict=True)
    ]


def draw(count: int, random: np.random.Generator) -> tuple[Array, Array, Array]:
    """Sounds as count × samples, their classes, and when the planted tone of each begins, in seconds."""
    sounds = _hum(count, random)
    labels = random.integers(len(LABELS), size=count)
    slots = random.random((count, int(SECONDS / _SLOT))).argsort(1)[:, : 1 + DECOYS]
    starts = np.round((slots * _SLOT + random.uniform(0, _SLOT - TONE, slots.shape)) * RATE).astype(int)
    pitches = np.array(DECOY_PITCHES)[random.integers(len(DECOY_PITCHES), size=slots.shape)]
    pitches[:, 0] = np.array(list(PITCHES.values()))[labels]
    for sound, own_starts, own_pitches in zip(sounds, starts, pitches, strict=True):
        for start, pitch in zip(own_starts, own_pitches, strict=True):
            tone = _tone(pitch, random)
            sound[start : start + len(tone)] += tone
    return sounds.astype(np.float32), labels, starts[:, 0] / RATE


def _hum(count: int, random: np.random.Generator) -> Array:
    """A low voice of a few harmonics that swells and fades, with noise on every sample."""
    time = np.arange(round(SECONDS * RATE)) / RATE
    base = random.uniform(70, 110, (count, 1))
    hum = np.zeros((count, len(time)))
    for harmonic in (1, 2):
        hum += np.sin(2 * np.pi * (harmonic * base * time + random.random((count, 1)))) / harmonic
    swell = 1 + 0.5 * np.sin(2 * np.pi * (random.uniform(0.3, 1.5, (count, 1)) * time + random.random((count, 1))))
    noisy: Array = 0.05 * swell * hum + random.normal(0, 0.01, hum.shape)
    return noisy


def _tone(pitch: float, random: np.random.Generator) -> Array:
    time = np.arange(round(TONE * RATE)) / RATE
    fade = np.clip(np.minimum(time, TONE - time) / _FADE, 0, 1)
    tone: Array = random.uniform(0.08, 0.16) * fade * np.sin(2 * np.pi * (pitch * time + random.random()))
    return tone
