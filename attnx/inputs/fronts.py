"""What stands in front of the attention of a model that reads sound: how it makes positions of the tensor that goes in.

A row for each layout, found by the modules that a model has and not by its name: Wav2Vec2, HuBERT, WavLM and their kin
convolve samples, Whisper convolves frames of a spectrum, AST cuts the spectrum into patches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from attnx.errors import InputError


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
            if name.rpartition(".")[2] == front.ending and all(hasattr(module, one) for one in front.has):
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
