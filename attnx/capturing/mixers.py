"""What mixes positions beside attention, inside its own layers: convolutions, recurrences, Fourier transforms.

A hybrid whose layers have attention *and* a state space in parallel (Falcon-H1), or heads that convolve (ConvBERT),
has as many attention calls as layers, and still moves between positions what no attention shows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor

from attnx.errors import CaptureError

_CONVOLUTIONS = {"conv1d", "conv2d", "conv3d"}
MIXING = _CONVOLUTIONS | {
    "unfold",
    "lstm",
    "gru",
    "rnn_tanh",
    "rnn_relu",
    "fft_fft",
    "fft_rfft",
    "fft_fftn",
    "fft_fft2",
}
"""Names of the functions that may move something from one position to another."""

SAMPLING = "grid_sample"
"""The function by which deformable attention reads its input: at a few points between positions, without a map."""


def mixes(name: str, operands: Sequence[Any]) -> bool:
    """Whether one of them does. A convolution of width 1 does not."""
    if name in _CONVOLUTIONS:
        weight = operands[1] if len(operands) > 1 else None
        return isinstance(weight, Tensor) and any(size > 1 for size in weight.shape[2:])
    return name in MIXING


def beside(attention: Sequence[str], mixers: Iterable[str]) -> tuple[str, ...]:
    """Of the modules that mix, those in a layer of attention, with # for the layer's number."""
    layers = {layer for module in attention for layer in _layer(module, attention)}
    found = [name for name in mixers if any(name.startswith(layer) for layer in layers)]
    return tuple(dict.fromkeys(re.sub(r"\d+", "#", name) for name in found))


def check_sampling(sampling: Iterable[str], model_name: str, within: str = "") -> None:
    """Refuse layers that attend by sampling: the attention that is seen beside it is not the model's."""
    layer = next((name for name in sampling if name.startswith(within) and re.search(r"\.\d+\.", name)), None)
    if layer is not None:
        raise CaptureError(
            f"{model_name} attends by sampling in {layer} (deformable attention), which has no map over positions, so "
            "the attention that is seen beside it is not the model's; use a model of the same task that attends over "
            "all positions (DETR without deformable attention, a ViT), or Captum, which needs no map"
        )


def _layer(module: str, attention: Sequence[str]) -> list[str]:
    """How names in the layer of this module begin: "a.layers.3." of "a.layers.3.attn", if no other module has it."""
    for end in re.finditer(r"(?:^|\.)\d+\.", module):
        beginning = module[: end.end()]
        if not any(other.startswith(beginning) for other in attention if other != module):
            return [beginning]
    return []
