"""What stands in front of the attention of a model that reads sound: how it makes positions of the tensor that goes in.

A row for each layout, found by the modules that a model has and not by its name: Wav2Vec2, HuBERT, WavLM and their kin
convolve samples, Whisper convolves frames of a spectrum, AST cuts the spectrum into patches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor, nn

from attnx.errors import InputError

Array: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Hearing: TypeAlias = Callable[[Array], Array]
"""From one number for each moment, 0 but for clicks of 1, to columns × numbers."""

Click: TypeAlias = tuple[float, float, float]
"""When it is, and the first and the last column that hear it."""

_FEW, _CLICKS = 4, 48
"""Clicks that tell nothing, and those that are heard at first."""
_APART = 6.38
"""Hops between two clicks of one run: more than any column of the families here hears of."""
_MANY = 24
"""Columns of which those in the midst tell enough."""
_HEARD = 1e-4
"""Of the largest change: what is less is rounding."""


@dataclass(frozen=True)
class Timing:
    """Column i hears `field` moments around `middle + hop · i`; moment t lasts from t to t + 1."""

    hop: float
    middle: float
    field: float

    def behind(self, first: Timing) -> Timing:
        """The timing of columns that are made of columns: theirs of those, and those of the moments."""
        middle = first.middle + first.hop * (self.middle - 0.5)
        return Timing(first.hop * self.hop, middle, first.hop * (self.field - 1) + first.field)

    def stretch(self, column: int) -> tuple[float, float]:
        """The hop around the middle of what a column hears: stretches meet, where fields overlap."""
        middle = self.middle + self.hop * column
        return middle - self.hop / 2, middle + self.hop / 2

    def shares(self, count: int, length: int) -> list[slice]:
        """Whose each of so many moments is: the column's in whose stretch its middle lies, at the ends the nearest."""
        own = np.floor((np.arange(length) + 0.5 - self.middle) / self.hop + 0.5).clip(0, count - 1)
        edges = np.searchsorted(own, np.arange(count + 1))
        return [slice(int(start), int(end)) for start, end in pairwise(edges)]


MOMENT = Timing(1.0, 0.5, 1.0)
"""Of sound that goes into a model as it is: a column is a moment."""


def measure_timing(hearing: Hearing, length: int) -> Timing | None:
    """When the columns of a sound of so many moments hear; None where they do not hear alike, a hop apart."""
    ear = _Ear(hearing, hearing(np.zeros(length)), length)
    hop = _roughly(ear)
    if hop is None:
        return None
    audio_input = ear.audio_input(_runs(ear, hop), hop)
    found = _fitting(audio_input, hop, ear.count)
    if found is not None and found.doubtful.size and ear.count >= _MANY:
        # Columns of padding, which hear nothing, may follow those of the sound.
        within = min(ear.count, length // found.hop)
        audio_input += ear.audio_input(_at_phases(found.doubtful, found.hop, within), found.hop)
        found = _fitting(audio_input, found.hop, ear.count)
    return None if found is None else found.timing


@dataclass(frozen=True)
class _Fitting:
    """Column i hears from `low + hop · i` to `high + hop · i`, as far as clicks tell."""

    hop: int
    low: tuple[float, float]
    high: tuple[float, float]

    @property
    def room(self) -> float:
        return min(self.low[1] - self.low[0], self.high[1] - self.high[0])

    @property
    def doubtful(self) -> Array:
        """Where in a hop more clicks would tell more."""
        edges = [np.arange(low, high + 1) for low, high in (self.low, self.high) if low < high]
        return np.concatenate([np.empty(0), *edges])

    @property
    def timing(self) -> Timing:
        low, high = sum(self.low) / 2, sum(self.high) / 2
        return Timing(float(self.hop), float(low + high + 1) / 2, float(high - low + 1))


def _fitting(audio_input: Sequence[Click], roughly: float, count: int) -> _Fitting | None:
    """The whole hop that fits all clicks, each with the first and the last column that hear it.

    That a column is the last to hear a click says that its `low` is not behind the click, and that of the column after
    it is, if there is one; likewise of the first. Of several hops that fit, the one that leaves most room is the true
    one but for a sample or two.
    """
    if len(audio_input) < _FEW:
        return None
    at, first, last = np.array(audio_input, dtype=np.float64).T
    ends, begins = last < count - 1, first > 0
    best: _Fitting | None = None
    for hop in range(max(1, round(roughly / 2)), round(2 * roughly) + 2):
        low = (at - hop * (last + 1))[ends].max(initial=-np.inf) + 1, (at - hop * last).min()
        high = (at - hop * first).max(), (at - hop * (first - 1))[begins].min(initial=np.inf) - 1
        one = _Fitting(hop, low, high)
        if 0 <= one.room < np.inf and (best is None or one.room > best.room):
            best = one
    return best


@dataclass(frozen=True, eq=False)
class _Ear:
    """What hears, and what it makes of silence of this length."""

    hearing: Hearing
    silence: Array
    length: int

    @property
    def count(self) -> int:
        return len(self.silence)

    def changes(self, clicks: Array) -> Array:
        """By how much each column changes. What all share is no hearing of a click: sound is normalised as a whole."""
        audio = np.zeros(self.length)
        audio[clicks.astype(int)] = 1
        changes = self.hearing(audio) - self.silence
        array: Array = np.abs(changes - np.median(changes, axis=0)).max(1)
        return array

    def audio_input(self, runs: Sequence[Array], hop: float) -> list[Click]:
        """Each click of all runs with the first and the last column that hear it."""
        result = []
        for clicks in runs:
            changes = self.changes(clicks)
            columns = np.flatnonzero(changes > _HEARD * changes.max())
            nearest = np.abs(columns[:, None] * hop - clicks).argmin(1) if len(columns) else columns
            groups = [(float(click), columns[nearest == place]) for place, click in enumerate(clicks)]
            result += [(click, float(own.min()), float(own.max())) for click, own in groups if len(own)]
        return result


def _roughly(ear: _Ear) -> float | None:
    """The hop by two clicks; None where one of them is not heard, as behind the end of what is read."""
    quarter, loudest = ear.length // 4, []
    for click in (quarter, ear.length - quarter):
        changes = ear.changes(np.array([click]))
        if not changes.max() > 0:
            return None
        loudest.append(int(changes.argmax()))
    return (ear.length - 2 * quarter) / (loudest[1] - loudest[0]) if loudest[1] > loudest[0] else None


def _runs(ear: _Ear, hop: float) -> list[Array]:
    """Clicks at all phases within a hop; those of one run stand far apart.

    They stand in the midst of a sound, for at its ends it may be continued as in a mirror; of few columns none is left
    out.
    """
    start, room = (ear.length / 4, ear.length / 2) if ear.count >= _MANY else (0.0, float(ear.length))
    apart = min(_APART * hop, room)
    together = max(1, int(room // apart))
    # A step of the golden section visits phases evenly, however many runs there are.
    phases = apart * ((np.arange(ceil(_CLICKS / together)) * 0.618034) % 1)
    places = [np.floor(start + phase + apart * np.arange(together)) for phase in phases]
    return [some[some < ear.length] for some in places]


def _at_phases(phases: Array, hop: int, count: int) -> list[Array]:
    """A click at each of these places in a hop, as many in a run as stand far apart in the midst of a sound."""
    columns = np.arange(count // 4, count - count // 4, ceil(_APART))
    return [
        hop * columns[: len(some)] + some
        for start in range(0, len(phases), len(columns))
        for some in [phases[start : start + len(columns)]]
    ]


@dataclass(frozen=True)
class Front:
    """One layout."""

    ending: str
    """How the name of its module ends."""
    has: tuple[str, ...]
    """What that module has."""
    run: Callable[[nn.Module, Tensor], Tensor]
    """(module, the tensor of one input) → band × column × width; positions go column by column, band by band."""
    time: int
    """The axis of time of that tensor."""
    bands: int | None = None
    """The axis that is cut into bands; None where a position hears all of it."""
    prefix: tuple[str, ...] = ()
    """Positions before those of the sound, by the names of their parameters."""


@dataclass(frozen=True, eq=False)
class FoundFront:
    """The front of a model."""

    front: Front
    module: nn.Module

    def columns(self, values: Tensor) -> Tensor:
        """What it makes of one input: band × column × width."""
        weight = next(self.module.parameters())
        # Modules of their own: what the whole model draws at random while it is trained is not drawn here.
        return self.front.run(self.module, values.to(weight)).detach()


def front_of(model: nn.Module) -> FoundFront:
    """The row that fits; a model of another layout is an error that names it."""
    for front in FRONTS:
        for name, module in model.named_modules():
            if name.rpartition(".")[2] == front.ending and all(hasattr(module, name) for name in front.has):
                return FoundFront(front, module)
    raise InputError(
        f"{type(model).__name__} reads sound in a way that attnx does not know, so its positions cannot be placed in "
        "time; Wav2Vec2, HuBERT, WavLM, AST and Whisper can be explained, and any attention by attnx.capture"
    )


def _convolved_samples(module: nn.Module, samples: Tensor) -> Tensor:
    return module(samples[None]).transpose(1, 2)  # type: ignore[no-any-return]


def _convolved_frames(module: nn.Module, frames: Tensor) -> Tensor:
    first = nn.functional.gelu(module.conv1(frames[None]))  # type: ignore[operator]
    return module.conv2(first).transpose(1, 2)  # type: ignore[no-any-return, operator]


def _patches(module: nn.Module, frames: Tensor) -> Tensor:
    return module.projection(frames.T[None, None])[0].movedim(0, -1)  # type: ignore[no-any-return, operator]


FRONTS = (
    Front("feature_extractor", ("conv_layers",), _convolved_samples, time=0),
    Front("encoder", ("conv1", "conv2"), _convolved_frames, time=1),
    Front("", ("conv1", "conv2", "embed_positions"), _convolved_frames, time=1),  # such an encoder by itself
    Front("patch_embeddings", ("projection",), _patches, time=0, bands=1, prefix=("[CLS]", "[DIST]")),
)
