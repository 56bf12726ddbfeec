"""Audio with one planted tone whose pitch is the class, and the trained AST that ships with attnx."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from transformers import ASTFeatureExtractor

from attnx.demo_models.hub import DemoModel
from attnx.errors import InputError

RATE = 16_000
"""Samples a second."""
SECONDS = 2.0
TONE = 0.16
"""Seconds that a tone lasts."""
DECOYS = 3
"""Other tones in each clip: as striking as the planted one, and the same in all classes."""

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
    """A clip of audio, its class, and when the tone that decides it begins."""

    audio: Array
    """Samples of one channel, `RATE` a second."""
    label: str
    start: float
    """In seconds."""

    @property
    def end(self) -> float:
        return self.start + TONE

    def filled(self, times: Sequence[tuple[float, float]]) -> tuple[int, ...]:
        """Which of these segments of time the tone fills by half or more."""
        return tuple(
            number
            for number, (start, end) in enumerate(times)
            if min(end, self.end) - max(start, self.start) >= (end - start) / 2
        )


def generate(count: int, *, seed: int = 0) -> list[Planted]:
    """Generate this many clips of audio, the same for the same seed.

    >>> example = generate(1, seed=3)[0]
    >>> example.label, round(example.start, 3), len(example.audio)
    ('300 Hz', 1.279, 32000)
    """
    if count < 1:
        raise InputError(f"count must be at least 1, found {count}")
    clips, labels, starts = draw(count, np.random.default_rng(seed))
    return [
        Planted(audio, LABELS[label], float(start)) for audio, label, start in zip(clips, labels, starts, strict=True)
    ]


def draw(count: int, random: np.random.Generator) -> tuple[Array, Array, Array]:
    """Clips as count × samples, their classes, and when the planted tone of each begins, in seconds."""
    clips = _hum(count, random)
    labels = random.integers(len(LABELS), size=count)
    slots = random.random((count, int(SECONDS / _SLOT))).argsort(1)[:, : 1 + DECOYS]
    starts = np.round((slots * _SLOT + random.uniform(0, _SLOT - TONE, slots.shape)) * RATE).astype(int)
    pitches = np.array(DECOY_PITCHES)[random.integers(len(DECOY_PITCHES), size=slots.shape)]
    pitches[:, 0] = np.array(list(PITCHES.values()))[labels]
    for audio, clip_starts, clip_pitches in zip(clips, starts, pitches, strict=True):
        for start, pitch in zip(clip_starts, clip_pitches, strict=True):
            tone = _tone(pitch, random)
            audio[start : start + len(tone)] += tone
    return clips.astype(np.float32), labels, starts[:, 0] / RATE


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


FRAMES, BINS, PATCH = 200, 32, 8
"""Of the spectrum of a clip, and on a side of a patch: 25 segments of 80 ms in four bands."""


def build_processor() -> Any:
    """From samples to the frames of a mel spectrum, scaled about as the audio of the task needs it."""
    return ASTFeatureExtractor(sampling_rate=RATE, max_length=FRAMES, num_mel_bins=BINS, mean=-3.0, std=1.2)


MODEL = DemoModel("planted-tone", "ASTForAudioClassification", build_processor)
save = MODEL.save


def load_demo() -> tuple[Any, Any]:
    """The model, in float32 and in evaluation mode, and its feature extractor.

    >>> from attnx.demo_models.planted_tone import RATE, generate
    >>> model, extractor = load_demo()
    >>> example = generate(1, seed=6)[0]
    >>> inputs = extractor(example.audio, sampling_rate=RATE, return_tensors="pt")
    >>> model.config.id2label[int(model(**inputs).logits.argmax())] == example.label
    True
    """
    return MODEL.load()
