"""A family of models as data: five answers, most with a default that fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from attnx.errors import CaptureError
from attnx.inputs.heard import Heard
from attnx.inputs.positions import Positions, Span, Word

Box: TypeAlias = tuple[int, int, int, int]
"""Left, top, right and bottom; the last two are just outside."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """One input, ready for the model: tensors without a batch axis, and what each position is."""

    inputs: dict[str, Tensor]
    positions: Positions
    """Any tuple of `Position` that is given becomes this."""
    words: tuple[Word, ...]
    text: str | tuple[str, str] | None = None
    notes: tuple[str, ...] = ()
    """What the user should know of how the input was read: a cut, unknown words."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """The same as data, for `provenance["input"]`: `cut`, `unknown`, `first_token`."""
    boxes: tuple[Box | None, ...] | None = None
    """Of an image, the pixels of `pixel_values` that each position reads; None for CLS and the like."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What else the model's forward must be told, the same for a whole batch: `interpolate_pos_encoding`."""
    image: Any = None
    """The picture that was given, as a PIL image."""
    spans: tuple[Span, ...] = ()
    """Parts of the text that the caller named, as further units."""
    choices: tuple[Prepared, ...] = ()
    """Of multiple choice, all that there is to choose from, each an input of its own; this is the first."""
    streams: Mapping[str, int] = field(default_factory=dict)
    """Where there are several, how many positions each stream has, in the order of the count: source and output of an
    encoder–decoder, text and picture; else empty."""
    joined: frozenset[str] = frozenset()
    """Inputs whose first axis counts pictures, tiles or patches: those of a batch are laid one behind the other."""
    readers: Tensor | None = None
    """Of a picture with a text: in the shape of its pixel values, the position that reads each of them; −1 for none."""
    heard: Heard | None = None
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
        dense = self.inputs.get("pixel_values" if self.heard is None or self.streams else self.heard.entry)
        if dense is None:
            return tuple(self.streams.values())
        return (len(self.positions), *dense.shape) if self.joined else tuple(dense.shape)

    @property
    def rewrites(self) -> bool:
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
    def source_length(self) -> int:
        """How many positions stand before what the model writes: those of an encoder–decoder's source, else none."""
        return next(iter(self.streams.values()), 0) if self.rewrites else 0

    @property
    def text_length(self) -> int:
        """How many positions the text of a picture with a text has, or all of one stream."""
        return next(iter(self.streams.values()), len(self.positions)) if not self.rewrites else len(self.positions)

    @property
    def written_ids(self) -> dict[int, int]:
        """Position → token id, of all that the model writes or goes on from."""
        ids = self.inputs["decoder_input_ids" if self.rewrites else "input_ids"].tolist()
        return dict(enumerate(ids, start=self.source_length))

    @property
    def ids(self) -> dict[str, slice]:
        """The inputs that hold token ids, and whose positions they are."""
        if not self.rewrites:
            return {"input_ids": slice(0, self.text_length)}
        source = next(iter(self.streams.values()))
        places = {"input_ids": slice(0, source), "decoder_input_ids": slice(source, len(self.positions))}
        return {name: place for name, place in places.items() if name in self.inputs}


@dataclass(frozen=True, kw_only=True)
class Adapter:
    """What attnx must know of a family that it cannot see by watching the model run.

        register_adapter(Adapter(name="my_model", prepare=prepare_text, explained=cls_position))

    `name` is the `model_type` of the family's config.

    >>> from attnx.inputs.explained import cls_position
    >>> from attnx.inputs.text import prepare_text
    >>> Adapter(name="my_model", prepare=prepare_text, explained=cls_position).name
    'my_model'
    """

    name: str
    prepare: Callable[..., Prepared]
    """(model, processor, one input, truncate) → `Prepared`; the processor is a tokenizer or an image processor."""
    takes: frozenset[str] = frozenset()
    """What else `prepare` can be told by name: `interpolate` of images, `target_text` of encoder–decoders."""
    noun: str = "text"
    """What one input is called in messages: text, image, sound; input where it may be several of them."""
    explained: Callable[[nn.Module, Any, Prepared], int]
    """(model, processor, prepared) → the position to explain when the user names none."""
    blank: tuple[str, ...] = ("mask_token", "unk_token")
    """Tokens that can stand for "nothing here": the first that the tokenizer has, and that is nothing else to it."""
    embeddings: str | None = None
    """Name of the module that embeds the input; None asks `model.get_input_embeddings()`."""
    output_embeddings: Callable[[nn.Module], nn.Module] | None = None
    """(model) → the module that embeds the output of an encoder–decoder; None where the input is one stream."""
    within: str = ""
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
