"""Audio: from files and samples to model inputs, and positions that are segments of time.

A position hears what its receptive field covers. Behind the feature extractor that follows from the strides and kernels
of the model's convolutions; the extractor's own frames are measured by their response to impulses in silence.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import gcd
from os import PathLike, fspath
from pathlib import Path
from struct import error as StructError
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from attnx.adapters.adapter import Audio, AudioInput, Cell, PreparedInput, Samples
from attnx.adapters.positions import Position, Positions, Word
from attnx.errors import InputError, first_line, in_a_line

Array: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

RATE = 16_000
"""Samples a second, where the processor does not say."""
FRAME = 160
"""Samples from one frame of a spectrum to the next, where no extractor is there to be measured."""
ENTRIES = ("input_values", "input_features")
PADDING = "[PAD]"
_RATES = range(1_000, 400_001)


def accepts_audio(model: nn.Module) -> bool:
    """Whether audio goes into the model, as samples or as frames of its spectrum."""
    return getattr(model, "main_input_name", "") in ENTRIES


def is_audio_path(path: Any) -> bool:
    """Whether a string or a path can only mean an audio file."""
    return isinstance(path, (str, PathLike)) and os.fspath(path).lower().endswith((".wav", ".wave"))


def load_audio(audio: Any, rate: int) -> tuple[Audio, tuple[str, ...]]:
    """The audio at the model's rate, and notes on what was changed on the way.

    Samples alone are taken to be of that rate already; a WAV file and `{"array": …, "sampling_rate": …}`, as data sets
    and pipelines have it, name their own.
    """
    if isinstance(audio, (str, PathLike)):
        samples, source_rate = _read_wav(audio)
    elif isinstance(audio, Mapping):
        samples, source_rate = audio.get("array", audio.get("raw")), audio.get("sampling_rate", 0)
        if samples is None or not isinstance(source_rate, (int, np.integer)) or int(source_rate) not in _RATES:
            raise InputError(
                "audio with its sampling rate is {'array': samples, 'sampling_rate': 16000}; found "
                f"{', '.join(map(str, audio)) or 'nothing'}"
            )
    else:
        samples, source_rate = audio, rate
    source_rate = int(source_rate)
    samples, notes = _one_channel(samples)
    if source_rate == rate:
        # A copy, so that the explanation does not change with what its owner does to the samples later.
        return Audio(samples.copy(), rate), notes
    from scipy.signal import resample_poly

    common = gcd(source_rate, rate)
    samples = resample_poly(samples, rate // common, source_rate // common).astype(np.float32)
    return Audio(samples, rate), (*notes, f"the audio of {source_rate} Hz was resampled to the model's {rate} Hz")


def _read_wav(path: str | PathLike[str]) -> tuple[Any, int]:
    """Samples from −1 to 1, and their rate."""
    if not is_audio_path(path):
        raise InputError(
            f"this model explains audio, not text; pass a WAV file, the samples of one channel, or "
            f"{{'array': samples, 'sampling_rate': rate}}; found {fspath(path)[:60]!r}"
        )
    if not Path(path).is_file():
        raise InputError(f"there is no audio file {fspath(path)!r}")
    from scipy.io import wavfile

    try:
        rate, samples = wavfile.read(path)
    except (ValueError, EOFError, OSError, StructError) as error:
        raise InputError(f"{fspath(path)} is no WAV file ({first_line(error)}); save it as 16-bit PCM") from error
    if samples.dtype == np.uint8:
        return samples.astype(np.float32) / 128 - 1, int(rate)
    if samples.dtype.kind == "i":
        samples = samples / 2 ** (8 * samples.dtype.itemsize - 1)
    return samples.astype(np.float32), int(rate)


def _one_channel(samples: Any) -> tuple[Samples, tuple[str, ...]]:
    """The samples, the mean of several channels; time is the longer axis."""
    try:
        tensor = hasattr(samples, "detach")
        samples = np.asarray(samples.detach().cpu().float() if tensor else samples, dtype=np.float32)
    except (TypeError, ValueError):
        samples = np.empty(0, dtype=np.float32)
    notes: tuple[str, ...] = ()
    if samples.ndim == 2 and samples.size:
        channels = samples if samples.shape[0] >= samples.shape[1] else samples.T
        if channels.shape[1] > 1:
            notes = (f"the audio has {channels.shape[1]} channels: their mean was read",)
        samples = channels.mean(1, dtype=np.float32)
    if samples.ndim != 1 or not len(samples):
        raise InputError("audio is given as the samples of one channel, a list or array of numbers, or as features")
    if not np.isfinite(samples).all():
        raise InputError("the audio has samples that are NaN or infinite; read it again")
    return samples, notes


def prepare_audio(model: nn.Module, processor: Any, audio: Any, *, truncate: bool = False) -> PreparedInput:
    """A WAV file, samples of one channel, or features that a processor made of them; a position is a segment of time.

    What the processor adds behind the audio is named and is no content. A model that reads a fixed length refuses what
    is longer, unless `truncate` is true.
    """
    encoder, entry = convolutional_encoder(model), str(model.main_input_name)
    extractor = getattr(processor, "feature_extractor", processor)
    rate = int(getattr(extractor, "sampling_rate", RATE))
    notes: tuple[str, ...] = ()
    sound: Audio | None = None
    process: Callable[[Samples], Tensor] | None = None
    if isinstance(audio, Mapping) and entry in audio:
        values = _processed(audio, entry, encoder)
        sound = Audio(values.detach().cpu().float().numpy(), rate) if values.ndim == 1 else None
    else:
        sound, notes = load_audio(audio, rate)
        process = _processing(extractor, entry, rate)
        values = process(sound.samples)
    columns, rows = encoder.columns(values.shape), encoder.rows(values.shape)
    if columns < 1 or rows < 1:
        raise InputError(
            f"{type(model).__name__} makes no position of this audio of {tuple(values.shape)} numbers; give a longer "
            "one, or process it with the model's own processor"
        )
    frames, assumed = _frame_timing(extractor, entry, rate, values, encoder.time)
    timing = encoder.timing(encoder.time).of_frames(frames)
    end = values.shape[encoder.time] * frames.hop if sound is None else len(sound.samples)
    notes += (*assumed, *_truncation(timing, columns, end, rate, truncate=truncate))
    positions, words, padding = _positions(encoder, timing, rows, columns, end, rate)
    if padding:
        notes += (
            f"the audio ends at {end / rate:.2f} s; {padding} of {len(positions)} positions stand for the padding that "
            f"the processor put behind it, are named {PADDING} and are no content",
        )
    return PreparedInput(
        {entry: values},
        positions,
        words,
        notes=notes,
        facts={"hears": round(timing.field / rate, 4)},
        audio_input=AudioInput(
            entry, encoder.cells(values.shape), sound, process, encoder.bands is not None, encoder.time
        ),
    )


def _processed(audio: Mapping[str, Any], entry: str, encoder: ConvolutionalEncoder) -> Tensor:
    """Processed audio, without a batch axis, and without what a mask says is padding behind it."""
    values = torch.as_tensor(audio[entry])
    axes = 1 if encoder.time == 0 and encoder.bands is None else 2
    if values.ndim == axes + 1 and len(values) == 1:
        values = values[0]
    if values.ndim != axes:
        expected = "samples" if axes == 1 else "two axes, channel and frame"
        raise InputError(f"{entry} must be those of one audio, {expected}; found {tuple(values.shape)}")
    mask = audio.get("attention_mask")
    if mask is not None and axes == 1:
        values = values[: int(torch.as_tensor(mask).sum())]
    if not bool(values.isfinite().all()):
        raise InputError("the processed audio has numbers that are NaN or infinite; process it again")
    return values


def _processing(extractor: Any, entry: str, rate: int) -> Callable[[Samples], Tensor]:
    if not callable(extractor) or not hasattr(extractor, "sampling_rate"):
        raise InputError(
            f"audio needs a feature extractor, found {type(extractor).__name__}; pass "
            "AutoFeatureExtractor.from_pretrained(…) or AutoProcessor.from_pretrained(…)"
        )

    def process(samples: Samples) -> Tensor:
        try:
            return torch.as_tensor(extractor(samples, sampling_rate=rate, return_tensors="pt")[entry])[0]
        except Exception as error:  # whatever an extractor of any making does with audio that it cannot read
            raise InputError(
                f"{type(extractor).__name__} cannot process the audio ({in_a_line(error)}); is it the feature "
                "extractor of this model?"
            ) from error

    return process


def _truncation(timing: Timing, columns: int, end: float, rate: int, *, truncate: bool) -> tuple[str, ...]:
    """A note where the audio goes on behind the last position; an error unless the caller allows it."""
    last = timing.segment(columns - 1)[1]
    if end <= last + timing.field:
        return ()
    if not truncate:
        raise InputError(
            f"the audio has {end / rate:.1f} seconds, the model reads {last / rate:.1f}; cut it, or let explain cut "
            "it: truncate=True"
        )
    return (f"the audio was cut to {last / rate:.1f} of {end / rate:.1f} seconds",)


def _positions(
    encoder: ConvolutionalEncoder, timing: Timing, rows: int, columns: int, end: float, rate: int
) -> tuple[Positions, tuple[Word, ...], int]:
    """Tokens of the model's own, then segment by segment, band by band; a word is a segment with all its bands."""

    def seconds(column: int) -> tuple[float, float] | None:
        """The first segment begins with the audio, the last ends with it; None behind its end."""
        start, stop = timing.segment(column)
        start = 0.0 if column == 0 else max(start, 0.0)
        stop = end if column == columns - 1 else min(stop, end)
        return None if start >= end else (round(start / rate, 6), round(stop / rate, 6))

    times = [seconds(column) for column in range(columns)]
    heard = [(column, time) for column, time in enumerate(times) if time is not None]
    word_of = {column: number for number, (column, _) in enumerate(heard)}
    positions = [Position(index, token, special=True) for index, token in enumerate(encoder.prefix)]
    pieces: list[list[int]] = [[] for _ in heard]
    for row in range(rows):
        for column, time in enumerate(times):
            index = len(positions)
            if time is None:
                positions.append(Position(index, PADDING, special=True))
                continue
            word, name, band = word_of[column], f"{time[0]:.2f} s", None
            if encoder.bands is not None:
                low, high = encoder.timing(encoder.bands).segment(row)
                name, band = f"{name}, band {row}", (round(max(low, 0.0)) if row else 0, round(high))
            pieces[word].append(index)
            positions.append(Position(index, name, word=word, time=time, band=band))
    words = (Word(number, f"{time[0]:.2f} s", tuple(pieces[number])) for number, (_, time) in enumerate(heard))
    return Positions(positions), tuple(words), rows * times.count(None)


@dataclass(frozen=True)
class Timing:
    """Column i hears `field` moments around `middle + hop · i`; moment t lasts from t to t + 1."""

    hop: float
    middle: float
    field: float

    def of_frames(self, frames: Timing) -> Timing:
        """The timing in the moments of which the frames are made, where each moment of this one is such a frame."""
        middle = frames.middle + frames.hop * (self.middle - 0.5)
        return Timing(frames.hop * self.hop, middle, frames.hop * (self.field - 1) + frames.field)

    def segment(self, column: int) -> tuple[float, float]:
        """The hop around the middle of what a column hears: segments meet, where fields overlap."""
        middle = self.middle + self.hop * column
        return middle - self.hop / 2, middle + self.hop / 2

    def shares(self, count: int, length: int) -> list[slice]:
        """Whose each of so many moments is: the column's in whose segment its middle lies, at the ends the nearest."""
        columns = np.floor((np.arange(length) + 0.5 - self.middle) / self.hop + 0.5).clip(0, count - 1)
        edges = np.searchsorted(columns, np.arange(count + 1))
        return [slice(int(start), int(end)) for start, end in pairwise(edges)]


MOMENT = Timing(1.0, 0.5, 1.0)
"""Of audio that goes into a model as it is: a column is a moment."""


@dataclass(frozen=True)
class ConvolutionalEncoder:
    """The convolutions that make positions of the tensor that goes in, found by a model's modules and not by its name.

    Wav2Vec2, HuBERT, WavLM and their kin convolve samples, Whisper convolves frames of a spectrum, AST cuts the
    spectrum into patches.
    """

    convolutions: tuple[nn.Conv1d | nn.Conv2d, ...]
    time: int
    """The axis of time of that tensor."""
    bands: int | None = None
    """The axis that is cut into bands; None where a position hears all of it."""
    prefix: tuple[str, ...] = ()
    """Positions before those of the audio, by the names of their parameters."""

    def timing(self, axis: int) -> Timing:
        """What the columns hear along an axis of the tensor."""
        timing = MOMENT
        for stride, kernel, padding in self._steps(axis):
            timing = Timing(float(stride), kernel / 2 - padding, float(kernel)).of_frames(timing)
        return timing

    def columns(self, shape: Sequence[int]) -> int:
        return self._count(self.time, shape)

    def rows(self, shape: Sequence[int]) -> int:
        return 1 if self.bands is None else self._count(self.bands, shape)

    def cells(self, shape: Sequence[int]) -> tuple[Cell | None, ...]:
        """For each position, which part of the tensor that goes in is its own."""
        moments = self.timing(self.time).shares(self.columns(shape), shape[self.time])
        cells: list[Cell]
        if self.bands is None:
            cells = [(moment,) if len(shape) == 1 else (slice(None), moment) for moment in moments]
        else:
            channels = self.timing(self.bands).shares(self.rows(shape), shape[self.bands])
            cells = [(moment, channel) for channel in channels for moment in moments]
        return (*[None] * len(self.prefix), *cells)

    def _count(self, axis: int, shape: Sequence[int]) -> int:
        length = shape[axis]
        for stride, kernel, padding in self._steps(axis):
            length = (length + 2 * padding - kernel) // stride + 1
        return max(length, 0)

    def _steps(self, axis: int) -> list[tuple[int, int, int]]:
        """Stride, kernel and padding of each convolution; of patches the first axis is bands, the second time."""
        number = -1 if axis == self.time else 0
        return [
            (module.stride[number], module.dilation[number] * (module.kernel_size[number] - 1) + 1, int(padding))
            for module in self.convolutions
            for padding in [module.padding[number]]
        ]


def convolutional_encoder(model: nn.Module) -> ConvolutionalEncoder:
    """The convolutions of the model; a model of another layout is an error that names it."""
    for name, module in model.named_modules():
        parts: Any = module
        last = name.rpartition(".")[2]
        if last == "feature_extractor" and hasattr(module, "conv_layers"):
            return ConvolutionalEncoder(tuple(layer.conv for layer in parts.conv_layers), time=0)
        whisper = last == "encoder" or (not name and hasattr(module, "embed_positions"))  # or such an encoder by itself
        if whisper and hasattr(module, "conv1") and hasattr(module, "conv2"):
            return ConvolutionalEncoder((parts.conv1, parts.conv2), time=1)
        if last == "patch_embeddings" and hasattr(module, "projection"):
            return ConvolutionalEncoder((parts.projection,), time=0, bands=1, prefix=("[CLS]", "[DIST]"))
    raise InputError(
        f"{type(model).__name__} reads audio in a way that attnx does not know, so its positions cannot be placed in "
        "time; Wav2Vec2, HuBERT, WavLM, AST and Whisper can be explained, and any attention by attnx.capture"
    )


_frame_timings: dict[str, Timing | None] = {}
"""What was measured of feature extractors, by their settings."""


def _frame_timing(extractor: Any, entry: str, rate: int, values: Tensor, time: int) -> tuple[Timing, tuple[str, ...]]:
    """What the frames of the spectrum hear, in samples, and a note where that could not be measured."""
    if values.ndim == 1:
        return MOMENT, ()
    assumed = Timing(float(FRAME), FRAME / 2, float(FRAME))
    if not callable(extractor) or not hasattr(extractor, "sampling_rate"):
        return assumed, (f"without its feature extractor a frame of this audio is taken for {FRAME / rate:g} s",)
    settings = getattr(extractor, "to_json_string", None)
    key = f"{type(extractor)} {settings()}" if callable(settings) else None
    timing = _frame_timings.get(key or "")
    if key is None or key not in _frame_timings:
        process = _processing(extractor, entry, rate)

        def frames(samples: Samples) -> Array:
            values: Array = process(samples).movedim(time, 0).double().numpy()
            return values

        lengths = (2 * rate // 2**halved for halved in range(5))
        timings = (measure_timing(frames, length) for length in lengths)
        timing = next((timing for timing in timings if timing is not None), None)
        if key is not None:
            _frame_timings[key] = timing
    if timing is None:
        name = type(extractor).__name__
        return assumed, (f"impulses do not tell what the frames of {name} hear: {FRAME} samples each",)
    return timing, ()


_THRESHOLD = 1e-4
"""Of the largest change: what is less is rounding."""
_APART, _REACH = 13, 5
"""Hops between the frames that are probed in one run, and how far from its middle a frame is probed."""


def measure_timing(frames: Callable[[Samples], Array], length: int) -> Timing | None:
    """What frames hear, by their response to impulses in silence; None where they do not hear alike, a hop apart."""
    silence = frames(np.zeros(length, np.float32))

    def changes(moments: Any) -> Array:
        """By how much each frame changes. What all share is no response: audio is normalised as a whole."""
        impulses = np.zeros(length, np.float32)
        impulses[moments] = 1
        difference = frames(impulses) - silence
        largest: Array = np.abs(difference - np.median(difference, axis=0)).max(1)
        return largest

    start, stop = length // 4, length - length // 4
    responses = [changes(moment) for moment in (start, stop)]
    first, last = (int(response.argmax()) for response in responses)
    if last <= first or not all(response.max() > 0 for response in responses):
        return None  # the second stands behind the end of what is read
    hop = round((stop - start) / (last - first))
    probed = np.arange(first + _REACH, last - _REACH, _APART)
    if not len(probed):
        return None
    edges = []
    for direction in (-1, 1):
        inside, outside = 0, _REACH * hop  # distances from the middle of a frame, as far as the first impulse tells it
        while outside - inside > 1:
            distances = np.unique(np.linspace(inside, outside, len(probed) + 2).astype(int)[1:-1])
            near = probed[: len(distances)]
            response = changes(start + hop * (near - first) + direction * distances)
            heard = response[near] > _THRESHOLD * response.max()
            if (np.diff(heard.astype(int)) > 0).any():
                return None
            inside = int(distances[heard].max(initial=inside))
            outside = int(distances[~heard].min(initial=outside))
        if outside == _REACH * hop:  # a frame hears so far that it has no time
            return None
        edges.append(direction * inside)
    low, high = edges
    return Timing(float(hop), start - hop * first + (low + high + 1) / 2, float(high - low + 1))
