"""A family of models as data, and an input that is ready for a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from attnx.adapters.positions import Positions, Span, Word
from attnx.errors import CaptureError

Samples: TypeAlias = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True, eq=False)
class Audio:
    """One channel of samples, from −1 to 1 where they are of a file."""

    samples: Samples
    rate: int
    """Samples a second."""

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate


Cell: TypeAlias = tuple[slice, ...]
"""A part of a tensor."""


@dataclass(frozen=True, eq=False)
class AudioInput:
    """What blanking by silence and attribution to positions need to know."""

    entry: str
    """The name of the tensor that goes in."""
    cells: tuple[Cell | None, ...]
    """For each position of the audio, its own part of that tensor; parts of two positions do not overlap."""
    audio: Audio | None = None
    """At the model's rate; None where frames of a spectrum were given."""
    process: Callable[[Samples], Tensor] | None = None
    """From samples to that tensor, as the processor makes it; None where the tensor was given."""
    banded: bool = False
    """Whether positions divide the spectrum as well as time."""
    time: int = 0
    """The axis of time of that tensor."""

    def quiet(self, values: Tensor) -> Tensor:
        """What stands for silence in such a tensor: zero samples, or the least that each channel has anywhere."""
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
    """Any sequence of `Position` becomes this."""
    words: tuple[Word, ...]
    text: str | tuple[str, str] | None = None
    notes: tuple[str, ...] = ()
    """What the user should know of how the input was read: a cut, unknown words."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """The same as data, for `provenance["input"]`: `cut`, `unknown`, `prepend_token`."""
    boxes: tuple[Box | None, ...] | None = None
    """Of an image, the pixels of `pixel_values` that each position reads; None for CLS and the like."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of the model's forward, the same for a whole batch: `interpolate_pos_encoding`."""
    image: Any = None
    """The original image, as a PIL image."""
    spans: tuple[Span, ...] = ()
    """Parts of the text that the caller named, as further units."""
    choices: tuple[PreparedInput, ...] = ()
    """Of multiple choice, all that there is to choose from, each an input of its own; this is the first."""
    sequences: Mapping[str, int] = field(default_factory=dict)
    """Where there are several, how many positions each sequence has, in the order of the positions: source and output
    of an encoder–decoder, text and picture; else empty."""
    joined: frozenset[str] = frozenset()
    """Inputs whose first axis counts images, tiles or patches: those of a batch are laid one behind the other."""
    readers: Tensor | None = None
    """Of an image with a text: in the shape of its pixel values, the position that reads each of them; −1 for none."""
    audio_input: AudioInput | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "positions", Positions(self.positions))

    @property
    def units(self) -> list[tuple[int, ...]]:
        """What is removed together: the parts that the caller named, or each position that is no special token."""
        return self.positions.units(self.spans)

    @property
    def shape(self) -> tuple[int, ...]:
        """Only inputs of equal shape fit in one batch. Empty for a text, which can be padded."""
        dense = self.inputs.get(
            "pixel_values" if self.audio_input is None or self.sequences else self.audio_input.entry
        )
        if dense is None:
            return tuple(self.sequences.values())
        return (len(self.positions), *dense.shape) if self.joined else tuple(dense.shape)

    @property
    def is_encoder_decoder(self) -> bool:
        """Whether the output is a sequence of its own, behind a source."""
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
    def first_length(self) -> int:
        """How many positions the first of several sequences has, or the only one."""
        return next(iter(self.sequences.values()), len(self.positions))

    @property
    def encoder_length(self) -> int:
        """How many positions stand before what the model generates: those of an encoder–decoder's source, else none."""
        return self.first_length if self.is_encoder_decoder else 0

    @property
    def text_length(self) -> int:
        """How many positions the text has: without the patches of an image beside it."""
        return len(self.positions) if self.is_encoder_decoder else self.first_length

    @property
    def decoder_ids(self) -> dict[int, int]:
        """Position → token id, of all that the model generates or continues."""
        ids = self.inputs["decoder_input_ids" if self.is_encoder_decoder else "input_ids"].tolist()
        return dict(enumerate(ids, start=self.encoder_length))

    @property
    def ids(self) -> dict[str, slice]:
        """The inputs that hold token ids, and whose positions they are."""
        ranges = {"input_ids": slice(0, self.first_length)}
        if self.is_encoder_decoder:
            ranges["decoder_input_ids"] = slice(self.first_length, len(self.positions))
        return {name: positions for name, positions in ranges.items() if name in self.inputs}


@dataclass(frozen=True, kw_only=True)
class Adapter:
    """What attnx must know of a family that it cannot observe in a run of the model.

    >>> from attnx.adapters.families import cls_position
    >>> from attnx.adapters.text import prepare_text
    >>> Adapter(name="my_model", prepare=prepare_text, explained=cls_position).name
    'my_model'
    """

    name: str
    """The `model_type` of the family's config."""
    prepare: Callable[..., PreparedInput]
    """(model, processor, one input, truncate) → `PreparedInput`; the processor is a tokenizer or an image processor."""
    takes: frozenset[str] = frozenset()
    """Further keyword arguments of `prepare`: `interpolate` of images, `target_text` of encoder–decoders."""
    noun: str = "text"
    """What one input is called in messages: text, image, audio; input where it may be several of them."""
    explained: Callable[[nn.Module, Any, PreparedInput], int]
    """(model, processor, prepared) → the position that is explained by default."""
    baseline: tuple[str, ...] = ("mask_token", "unk_token")
    """Tokens that can stand for "nothing here": the first that the tokenizer has, and that is nothing else to it."""
    embeddings: str | None = None
    """Name of the module that embeds the input; by default `model.get_input_embeddings()`."""
    decoder_embeddings: Callable[[nn.Module], nn.Module] | None = None
    """(model) → the module that embeds the output of an encoder–decoder; None where there is one sequence."""
    module: str = ""
    """Where in the model the explained stack of attention is, when it has several; of an encoder–decoder the one kind
    of layers that is followed, "self" or "cross"."""

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
                "methods=['blankout'], or register an adapter with embeddings=… (see docs/adapters.md)"
            )
        return module
