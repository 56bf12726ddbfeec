"""From sound to model inputs, and positions that are stretches of time."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from attnx.adapters.adapter import Audio, AudioInput, Cell, PreparedInput, Samples, load_audio
from attnx.adapters.audio_frames import MOMENT, FoundFront, Timing, front_of, measure_timing
from attnx.adapters.positions import Position, Positions, Word
from attnx.errors import InputError, in_a_line

RATE = 16_000
"""Samples a second, where the processor does not say."""
FRAME = 160
"""Samples from one frame of a spectrum to the next, where no extractor is there to be measured."""
ENTRIES = ("input_values", "input_features")
PADDING = "[PAD]"

Process: TypeAlias = Callable[[Samples], Tensor]

_frames: dict[str, Timing | None] = {}
"""What was measured of feature extractors, by their settings."""
_fronts: weakref.WeakKeyDictionary[nn.Module, dict[tuple[int, ...], tuple[Timing | None, Timing | None]]] = (
    weakref.WeakKeyDictionary()
)
"""What was measured of models: their columns, and their bands."""


def accepts_audio(model: nn.Module) -> bool:
    """Whether sound goes into the model, as samples or as frames of its spectrum."""
    return getattr(model, "main_input_name", "") in ENTRIES


def prepare_audio(model: nn.Module, processor: Any, audio: Any, *, truncate: bool = False) -> PreparedInput:
    """A WAV file, samples of one channel, or features that a processor made of them; a position is a stretch of time.

    When each position hears is measured with clicks in silence. What the processor adds behind the sound is named and
    is no content. A model that reads a fixed length refuses what is longer, unless `truncate` is true.
    """
    found, entry = front_of(model), str(model.main_input_name)
    extractor = getattr(processor, "feature_extractor", processor)
    rate = int(getattr(extractor, "sampling_rate", RATE))
    notes: tuple[str, ...] = ()
    audio_input: Audio | None = None
    process: Process | None = None
    if isinstance(audio, Mapping) and entry in audio:
        values = _given(audio, entry, found)
        audio_input = Audio(values.detach().cpu().float().numpy(), rate) if values.ndim == 1 else None
    else:
        audio_input, notes = load_audio(audio, rate)
        process = _process(extractor, entry, rate)
        values = process(audio_input.samples)
    try:
        columns = found.columns(values)
    except RuntimeError as error:  # convolutions say so where their kernel is longer than what they read
        raise InputError(
            f"{type(model).__name__} makes no position of this sound of {tuple(values.shape)} numbers "
            f"({in_a_line(error)}); give a longer one, or process it with the model's own processor"
        ) from error
    frames, unmeasured = _frame_timing(extractor, entry, rate, values, found.front.time)
    own, bands = _front_timing(model, found, values)
    timing = own.behind(frames)
    end = values.shape[found.front.time] * frames.hop if audio_input is None else len(audio_input.samples)
    notes += (*unmeasured, *_cut(timing, columns.shape[1], end, rate, truncate=truncate))
    positions, words, padding = _positions(found, columns, timing, bands, end, rate)
    cells = _cells(found, columns, values, own, bands)
    if padding:
        notes += (
            f"the sound ends at {end / rate:.2f} s; {padding} of {len(positions)} positions stand for the padding that "
            f"the processor put behind it, are named {PADDING} and are no content",
        )
    return PreparedInput(
        {entry: values},
        positions,
        words,
        notes=notes,
        facts={"hears": round(timing.field / rate, 4)},
        audio_input=AudioInput(entry, cells, audio_input, process, found.front.bands is not None, found.front.time),
    )


def _given(audio: Mapping[str, Any], entry: str, found: FoundFront) -> Tensor:
    """Processed sound, without a batch axis, and without what a mask says is padding behind it."""
    values = torch.as_tensor(audio[entry])
    expected = 1 if found.front.time == 0 and found.front.bands is None else 2
    if values.ndim == expected + 1 and len(values) == 1:
        values = values[0]
    if values.ndim != expected:
        axes = "samples" if expected == 1 else "two axes, channel and frame"
        raise InputError(f"{entry} must be those of one sound, {axes}; found {tuple(values.shape)}")
    mask = audio.get("attention_mask")
    if mask is not None and expected == 1:
        values = values[: int(torch.as_tensor(mask).sum())]
    if not bool(values.isfinite().all()):
        raise InputError("the processed sound has numbers that are NaN or infinite; process it again")
    return values


def _process(extractor: Any, entry: str, rate: int) -> Process:
    if not callable(extractor) or not hasattr(extractor, "sampling_rate"):
        raise InputError(
            f"sound needs a feature extractor, found {type(extractor).__name__}; pass "
            "AutoFeatureExtractor.from_pretrained(…) or AutoProcessor.from_pretrained(…)"
        )

    def process(samples: Samples) -> Tensor:
        try:
            made = torch.as_tensor(extractor(samples, sampling_rate=rate, return_tensors="pt")[entry])
        except Exception as error:  # whatever an extractor of any making does with a sound that it cannot read
            raise InputError(
                f"{type(extractor).__name__} cannot process the sound ({in_a_line(error)}); is it the feature "
                "extractor of this model?"
            ) from error
        return made[0]

    return process


def _frame_timing(extractor: Any, entry: str, rate: int, values: Tensor, time: int) -> tuple[Timing, tuple[str, ...]]:
    """When the frames of the spectrum hear, in samples, and a note where that could not be measured."""
    if values.ndim == 1:
        return MOMENT, ()
    assumed = Timing(float(FRAME), FRAME / 2, float(FRAME))
    if not callable(extractor) or not hasattr(extractor, "sampling_rate"):
        return assumed, (f"without its feature extractor a frame of this sound is taken for {FRAME / rate:g} s",)
    settings = getattr(extractor, "to_json_string", None)
    key = f"{type(extractor)} {settings()}" if callable(settings) else None
    if key is None or key not in _frames:
        process = _process(extractor, entry, rate)

        def hearing(clicks: Any) -> Any:
            return process(clicks.astype(np.float32)).movedim(time, 0).double().numpy()

        lengths = (2 * rate // 2**halved for halved in range(5))
        timing = next((one for length in lengths if (one := measure_timing(hearing, length)) is not None), None)
        if key is None:
            return (assumed, ()) if timing is None else (timing, ())
        _frames[key] = timing
    known = _frames[key]
    if known is None:
        return assumed, (
            f"clicks do not tell when the frames of {type(extractor).__name__} hear: {FRAME} samples each",
        )
    return known, ()


def _front_timing(model: nn.Module, found: FoundFront, values: Tensor) -> tuple[Timing, Timing | None]:
    """When the columns hear, in moments of the tensor that goes in, and which of its channels each band hears."""
    shape = tuple(values.shape) if values.ndim > 1 else ()
    known = _fronts.setdefault(model, {})
    if shape not in known:
        time, bands = found.front.time, found.front.bands

        def of_time(clicks: Any) -> Any:
            tensor = torch.zeros(len(clicks)) if values.ndim == 1 else torch.zeros(shape)
            tensor = tensor.movedim(time, 0).add_(
                torch.from_numpy(clicks).float().reshape(-1, *[1] * (values.ndim - 1))
            )
            columns = found.columns(tensor.movedim(0, time))
            return columns.movedim(1, 0).flatten(1).double().cpu().numpy()

        def of_bands(clicks: Any) -> Any:
            one = torch.zeros(shape).movedim(int(bands or 0), 0)
            one = one.add_(torch.from_numpy(clicks).float()[:, None]).movedim(0, int(bands or 0))
            return found.columns(one).mean(1).double().cpu().numpy()

        length = 2 * RATE if values.ndim == 1 else values.shape[time]
        timing = measure_timing(of_time, length)
        known[shape] = timing, None if bands is None else measure_timing(of_bands, values.shape[bands])
    timing, across = known[shape]
    if timing is None:
        raise InputError(
            f"clicks do not tell when the positions of {type(model).__name__} hear: they change others than those a "
            "step apart, so they cannot be placed in time; use attnx.capture"
        )
    return timing, across


def _cut(timing: Timing, count: int, end: float, rate: int, *, truncate: bool) -> tuple[str, ...]:
    """A note where the sound goes on behind the last position; an error unless the caller allows it."""
    read = timing.stretch(count - 1)[1] + timing.field
    if end <= read:
        return ()
    last = timing.stretch(count - 1)[1]
    if not truncate:
        raise InputError(
            f"the sound has {end / rate:.1f} seconds, the model reads {last / rate:.1f}; cut it, or let explain cut "
            "it: truncate=True"
        )
    return (f"the sound was cut to {last / rate:.1f} of {end / rate:.1f} seconds",)


def _positions(
    found: FoundFront, columns: Tensor, timing: Timing, bands: Timing | None, end: float, rate: int
) -> tuple[Positions, tuple[Word, ...], int]:
    """Tokens of the model's own, then stretch by stretch, band by band; a word is a stretch with all its bands."""
    rows, count = columns.shape[:2]
    times = [_stretch(timing, column, count, end, rate) for column in range(count)]
    positions = [Position(index, token, special=True) for index, token in enumerate(found.front.prefix)]
    pieces: dict[int, list[int]] = {}
    for row in range(rows):
        for column, time in enumerate(times):
            index = len(positions)
            if time is None:
                positions.append(Position(index, PADDING, special=True))
                continue
            word = pieces.setdefault(column, [])
            word.append(index)
            name = f"{time[0]:.2f} s"
            channels = None if bands is None else _channels(bands, row, rows)
            token = name if channels is None else f"{name}, band {row}"
            positions.append(Position(index, token, word=list(pieces).index(column), time=time, band=channels))
    words = [Word(number, f"{(times[column] or (0, 0))[0]:.2f} s", tuple(own)) for number, (column, own) in
             enumerate(pieces.items())]  # fmt: skip
    return Positions(positions), tuple(words), rows * times.count(None)


def _stretch(timing: Timing, column: int, count: int, end: float, rate: int) -> tuple[float, float] | None:
    """In seconds; the first begins with the sound, the last that hears it ends with it. None behind its end."""
    start, stop = timing.stretch(column)
    start = 0.0 if column == 0 else max(start, 0.0)
    if start >= end:
        return None
    stop = end if column == count - 1 else min(stop, end)
    return round(start / rate, 6), round(stop / rate, 6)


def _channels(bands: Timing, row: int, rows: int) -> tuple[int, int]:
    low, high = bands.stretch(row)
    return round(max(low, 0.0)) if row else 0, round(high)


def _cells(
    found: FoundFront, columns: Tensor, values: Tensor, own: Timing, bands: Timing | None
) -> tuple[Cell | None, ...]:
    """For each position, which part of the tensor that goes in is its own."""
    rows, count = columns.shape[:2]
    moments = own.shares(count, values.shape[found.front.time])
    if found.front.bands is None or bands is None:
        everything = (slice(None),)
        cells = [(one,) if values.ndim == 1 else (*everything, one) for one in moments]
    else:
        channels = bands.shares(rows, values.shape[found.front.bands])
        cells = [(moment, channel) for channel in channels for moment in moments]
    return (*[None] * len(found.front.prefix), *cells)
