"""A family of models as data: five answers, most with a default that fits."""

from __future__ import annotations

import os
import wave
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from math import gcd
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from attnx.adapters.positions import Positions, Span, Word
from attnx.errors import CaptureError, InputError, first_line

Samples: TypeAlias = np.ndarray[Any, np.dtype[np.float32]]

_RATES = range(1_000, 400_001)
"""Samples a second that are sound at all."""


@dataclass(frozen=True, eq=False)
class Audio:
    """One channel of samples, from −1 to 1 where they are of a file."""

    samples: Samples
    rate: int
    """Samples a second."""

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate


def load_audio(given: Any, rate: int) -> tuple[Audio, tuple[str, ...]]:
    """The sound at the model's rate, and notes on what was changed on the way.

    Samples alone are taken to be of that rate already; a WAV file and `{"array": …, "sampling_rate": …}`, as data sets
    and pipelines have it, say their own.
    """
    if isinstance(given, (str, PathLike)):
        samples, index = _read_wave(given)
    elif isinstance(given, Mapping):
        samples, index = _of_mapping(given)
    else:
        samples, index = given, rate
    return _resampled(*_one_channel(samples), index, rate)


def is_audio_path(given: Any) -> bool:
    """Whether a string or a path can only mean a file of sound."""
    return isinstance(given, (str, PathLike)) and os.fspath(given).lower().endswith((".wav", ".wave"))


def _read_wave(path: str | PathLike[str]) -> tuple[Any, int]:
    if not is_audio_path(path):
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
            "audio with its sampling rate is {'array': samples, 'sampling_rate': 16000}; found "
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


def _resampled(samples: Samples, notes: tuple[str, ...], own: int, rate: int) -> tuple[Audio, tuple[str, ...]]:
    if own == rate:
        # A copy, so that the explanation does not change with what its owner does to the samples later.
        return Audio(samples.copy(), rate), notes
    from scipy.signal import resample_poly

    common = gcd(own, rate)
    made = resample_poly(samples, rate // common, own // common).astype(np.float32)
    return Audio(made, rate), (*notes, f"the sound of {own} Hz was resampled to the model's {rate} Hz")


Cell: TypeAlias = tuple[slice, ...]
"""A part of a tensor."""


@dataclass(frozen=True, eq=False)
class AudioInput:
    """What blanking by silence and attribution to positions need to know."""

    entry: str
    """The name of the tensor that goes in."""
    cells: tuple[Cell | None, ...]
    """For each position of the sound, its own part of that tensor; parts of two positions do not overlap."""
    audio: Audio | None = None
    """At the model's rate; None where frames of a spectrum were given."""
    process: Callable[[Samples], Tensor] | None = None
    """From samples to that tensor, as the processor makes it; None where the tensor was given."""
    banded: bool = False
    """Whether positions divide the spectrum as well as time."""
    time: int = 0
    """The axis of time of that tensor."""

    def quiet(self, values: Tensor) -> Tensor:
        """What stands for silence in such a tensor: no sound at all, or the least that each channel has anywhere."""
        return torch.zeros_like(values) if values.ndim == 1 else values.amin(self.time, keepdim=True).expand_as(values)

    def pooled(self, numbers: Tensor) -> Tensor:
        """One number for each position: the sum over its own part of a tensor like the one that goes in."""
        nothing = numbers.sum() * 0
        return torch.stack([nothing if cell is None else numbers[cell].sum() for cell in self.cells])


Box: TypeAlias = tuple[int, int, int, int]
"""Left, top, right and bottom; the last two are just outside."""


@dataclass(frozen=True, eq=False)
class PreparedInput:
    """One input, ready for the model: tensors without a batch axis, and what each position is."""

    inputs: dict[str, Tensor]
    positions: Positions
    """Any tuple of `Position` that is given becomes this."""
    words: tuple[Word, ...]
    text: str | tuple[str, str] | None = None
    notes: tuple[str, ...] = ()
    """What the user should know of how the input was read: a cut, unknown words."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """The same as data, for `provenance["input"]`: `cut`, `unknown`, `prepend_token`."""
    boxes: tuple[Box | None, ...] | None = None
    """Of an image, the pixels of `pixel_values` that each position reads; None for CLS and the like."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What else the model's forward must be told, the same for a whole batch: `interpolate_pos_encoding`."""
    image: Any = None
    """The picture that was given, as a PIL image."""
    spans: tuple[Span, ...] = ()
    """Parts of the text that the caller named, as further units."""
    choices: tuple[PreparedInput, ...] = ()
    """Of multiple choice, all that there is to choose from, each an input of its own; this is the first."""
    sequences: Mapping[str, int] = field(default_factory=dict)
    """Where there are several, how many positions each stream has, in the order of the count: source and output of an
    encoder–decoder, text and picture; else empty."""
    joined: frozenset[str] = frozenset()
    """Inputs whose first axis counts pictures, tiles or patches: those of a batch are laid one behind the other."""
    readers: Tensor | None = None
    """Of a picture with a text: in the shape of its pixel values, the position that reads each of them; −1 for none."""
    audio_input: AudioInput | None = None
    """Of sound how the model reads it, and the sound itself."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "positions", Positions(self.positions))

    @property
    def units(self) -> list[tuple[int, ...]]:
        """What is removed together: the parts that the caller named, or each position that is no special token."""
        return self.positions.units(self.spans)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of an image's pixel values, of sound, or of two streams: only equal ones fit in one batch. Empty for a text,
        which can be padded."""
        dense = self.inputs.get(
            "pixel_values" if self.audio_input is None or self.sequences else self.audio_input.entry
        )
        if dense is None:
            return tuple(self.sequences.values())
        return (len(self.positions), *dense.shape) if self.joined else tuple(dense.shape)

    @property
    def is_encoder_decoder(self) -> bool:
        """Whether what is written stands in a stream of its own, behind a source."""
        return "decoder_input_ids" in self.inputs or "decoder_inputs_embeds" in self.inputs

    @property
    def digest(self) -> str:
        """A hash of what the model reads."""
        digest = sha256()
        for name, tensor in sorted(self.inputs.items()):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()

    @property
    def encoder_length(self) -> int:
        """How many positions stand before what the model writes: those of an encoder–decoder's source, else none."""
        return next(iter(self.sequences.values()), 0) if self.is_encoder_decoder else 0

    @property
    def text_length(self) -> int:
        """How many positions the text of a picture with a text has, or all of one stream."""
        return (
            next(iter(self.sequences.values()), len(self.positions))
            if not self.is_encoder_decoder
            else len(self.positions)
        )

    @property
    def decoder_ids(self) -> dict[int, int]:
        """Position → token id, of all that the model writes or goes on from."""
        ids = self.inputs["decoder_input_ids" if self.is_encoder_decoder else "input_ids"].tolist()
        return dict(enumerate(ids, start=self.encoder_length))

    @property
    def ids(self) -> dict[str, slice]:
        """The inputs that hold token ids, and whose positions they are."""
        if not self.is_encoder_decoder:
            return {"input_ids": slice(0, self.text_length)}
        source = next(iter(self.sequences.values()))
        places = {"input_ids": slice(0, source), "decoder_input_ids": slice(source, len(self.positions))}
        return {name: place for name, place in places.items() if name in self.inputs}


@dataclass(frozen=True, kw_only=True)
class Adapter:
    """What attnx must know of a family that it cannot see by watching the model run.

        register_adapter(Adapter(name="my_model", prepare=prepare_text, explained=cls_position))

    `name` is the `model_type` of the family's config.

    >>> from attnx.adapters.families import cls_position
    >>> from attnx.adapters.text import prepare_text
    >>> Adapter(name="my_model", prepare=prepare_text, explained=cls_position).name
    'my_model'
    """

    name: str
    prepare: Callable[..., PreparedInput]
    """(model, processor, one input, truncate) → `PreparedInput`; the processor is a tokenizer or an image processor."""
    takes: frozenset[str] = frozenset()
    """What else `prepare` can be told by name: `interpolate` of images, `target_text` of encoder–decoders."""
    noun: str = "text"
    """What one input is called in messages: text, image, sound; input where it may be several of them."""
    explained: Callable[[nn.Module, Any, PreparedInput], int]
    """(model, processor, prepared) → the position to explain when the user names none."""
    baseline: tuple[str, ...] = ("mask_token", "unk_token")
    """Tokens that can stand for "nothing here": the first that the tokenizer has, and that is nothing else to it."""
    embeddings: str | None = None
    """Name of the module that embeds the input; None asks `model.get_input_embeddings()`."""
    decoder_embeddings: Callable[[nn.Module], nn.Module] | None = None
    """(model) → the module that embeds the output of an encoder–decoder; None where the input is one stream."""
    module: str = ""
    """Where in the model the explained stack of attention is, when it has several; of an encoder–decoder the one kind
    of levels that is followed, "self" or "cross"."""

    def embedding_module(self, model: nn.Module) -> nn.Module:
        if self.embeddings is not None:
            return model.get_submodule(self.embeddings)
        try:
            module: Any = model.get_input_embeddings()  # type: ignore[operator]
        except (AttributeError, NotImplementedError):
            module = None
        if not isinstance(module, nn.Module):
            raise CaptureError(
                f"{type(model).__name__} names no module that embeds its input (get_input_embeddings), so what a token "
                "adds cannot be followed; use methods of attention itself (raw, rollout, flow) or "
                "references=('blankout',), or register an adapter with embeddings=… (see docs/adapters.md)"
            )
        return module
