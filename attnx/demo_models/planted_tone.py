"""The trained model that ships with attnx: a stock AST, its feature extractor, and weights in half precision."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from transformers import ASTFeatureExtractor, ASTForAudioClassification

from attnx._signals import uninterrupted
from attnx.demo_models.hub import embedded_name, quiet, shipped_directory
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

    audio: Array
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
    >>> one.label, round(one.start, 3), len(one.audio)
    ('300 Hz', 1.279, 32000)
    """
    if count < 1:
        raise InputError(f"count must be at least 1, found {count}")
    sounds, labels, starts = draw(count, np.random.default_rng(seed))
    return [
        Planted(audio, LABELS[label], float(start)) for audio, label, start in zip(sounds, labels, starts, strict=True)
    ]


def draw(count: int, random: np.random.Generator) -> tuple[Array, Array, Array]:
    """Sounds as count × samples, their classes, and when the planted tone of each begins, in seconds."""
    sounds = _hum(count, random)
    labels = random.integers(len(LABELS), size=count)
    slots = random.random((count, int(SECONDS / _SLOT))).argsort(1)[:, : 1 + DECOYS]
    starts = np.round((slots * _SLOT + random.uniform(0, _SLOT - TONE, slots.shape)) * RATE).astype(int)
    pitches = np.array(DECOY_PITCHES)[random.integers(len(DECOY_PITCHES), size=slots.shape)]
    pitches[:, 0] = np.array(list(PITCHES.values()))[labels]
    for audio, own_starts, own_pitches in zip(sounds, starts, pitches, strict=True):
        for start, pitch in zip(own_starts, own_pitches, strict=True):
            tone = _tone(pitch, random)
            audio[start : start + len(tone)] += tone
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


FRAMES, BINS, PATCH = 200, 32, 8
"""Of the spectrum of a sound, and on a side of a patch: 25 stretches of 80 ms in four bands."""


def build_extractor() -> Any:
    """From samples to the frames of a mel spectrum, scaled about as the sounds of the task need it."""
    return ASTFeatureExtractor(sampling_rate=RATE, max_length=FRAMES, num_mel_bins=BINS, mean=-3.0, std=1.2)


def load_demo() -> tuple[Any, Any]:
    """The model, in float32 and in evaluation mode, and its feature extractor.

    >>> from attnx.demo_models.planted_tone import RATE, generate
    >>> model, extractor = load_demo()
    >>> one = generate(1, seed=6)[0]
    >>> given = extractor(one.audio, sampling_rate=RATE, return_tensors="pt")
    >>> model.config.id2label[int(model(**given).logits.argmax())] == one.label
    True
    """
    # In one piece: a Ctrl-C in the middle would leave the libraries' log as it is set here.
    return uninterrupted(_load_demo)


def _load_demo() -> tuple[Any, Any]:
    with demo_directory() as directory, quiet():
        model = ASTForAudioClassification.from_pretrained(directory).float().eval()
        model.config.name_or_path = embedded_name("planted-tone")
        return model, build_extractor()


def demo_directory() -> AbstractContextManager[Path]:
    """Where the shipped model lies."""
    return shipped_directory("planted-tone")


def save(model: Any, directory: Path) -> None:
    """Write a model and its feature extractor so that `attnx explain --model` takes them. It is left as it is."""
    directory.mkdir(parents=True, exist_ok=True)
    with quiet():
        copy.deepcopy(model).half().save_pretrained(directory)
        build_extractor().save_pretrained(directory)
