"""The attention sink: what a decoder's first position gives to the score because it is first, whatever its token.

Position 0 sees itself alone, so all that it gives leaves through its values: at each attention call, what the values
v(0) get back from later positions is ∂S/∂v(0) − a · ∂S/∂o(0), where o(0) = a · v(0) is its own output. What *any* first
token would have given is the same with v̄, the mean of the values at position 0 over tokens drawn from the vocabulary:

    sink = Σ over calls of (∂S/∂v(0) − a · ∂S/∂o(0)) · v̄
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from inspect import signature
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from attnx.adapters import vocabulary_size
from attnx.errors import CaptureError
from attnx.hooks import active_mode, eval_mode
from attnx.linearize.mode import LRP, Kernel
from attnx.linearize.rules import linearize_mode

TOKENS = 256
_AT_ONCE = 64
_SEED = 0
_SAMPLES = 16
_PARALLEL = 1e-3
"""How far o(0) may be from a multiple of v(0), as a share of it: rounding."""

Fingerprint: TypeAlias = tuple[tuple[int, float], ...] | None
_kept: weakref.WeakKeyDictionary[nn.Module, tuple[Fingerprint, tuple[Tensor, ...]]] = weakref.WeakKeyDictionary()


def sink_shares(model: nn.Module, embedding: nn.Module, kernels: Sequence[Kernel], batch: int) -> Tensor | None:
    """What the sink gives to each input's score; None where the first position sees others, as in encoders.

    `kernels` are those of an `LRP` run, kept at position 0.
    """
    if not kernels or not all(_sees_itself_alone(kernel, batch) for kernel in kernels):
        return None
    neutral = neutral_values(model, embedding)
    if len(neutral) != len(kernels):
        raise CaptureError(
            f"{type(model).__name__} attends {len(kernels)} times on this input and {len(neutral)} times on one token, "
            "so its first position cannot be separated; use lrp with sink=False"
        )
    shares = torch.zeros(batch, dtype=torch.float64)
    for kernel, mean in zip(kernels, neutral, strict=True):
        leaving = _leaving(kernel, batch)
        if leaving is not None:
            shares += (leaving * _for_heads(mean, leaving.shape[1])).sum((1, 2)).cpu()
    return shares


def neutral_values(model: nn.Module, embedding: nn.Module) -> tuple[Tensor, ...]:
    """For each attention call head × width: the mean values of a first token, cached until the weights change."""
    check = weights_fingerprint(model)
    kept = _kept.get(model)
    if kept is None or check is None or kept[0] != check:
        kept = check, _mean_values(model, embedding)
        _kept[model] = kept
    return kept[1]


def _mean_values(model: nn.Module, embedding: nn.Module) -> tuple[Tensor, ...]:
    size = vocabulary_size(model)
    if size is None:
        raise CaptureError(f"{type(model).__name__} tells no size of its vocabulary; use lrp with sink=False")
    drawn = torch.randint(size, (TOKENS, 1), generator=torch.Generator().manual_seed(_SEED))
    options: dict[str, Any] = {"use_cache": False} if "use_cache" in signature(model.forward).parameters else {}
    sums: list[Tensor] = []
    with eval_mode(model):
        for tokens in torch.split(drawn, _AT_ONCE):
            mode = linearize_mode(model, LRP, embedding, ends=slice(0, 1))
            with active_mode(mode):
                model(input_ids=to_device_of(embedding, tokens), **options)
            mode.clear()
            values = [_by_input(kernel.values, len(tokens)).sum(0) for kernel in mode.kernels]
            sums = [total + value for total, value in zip(sums, values, strict=True)] if sums else values
    return tuple(tensor / TOKENS for tensor in sums)


def weights_fingerprint(model: nn.Module) -> Fingerprint:
    """A few numbers of every weight: enough to see that it was trained, loaded or replaced since.

    None where a weight cannot be read: it is offloaded, or of a class of its own.
    """

    def sample(weight: Tensor) -> float:
        part = weight.detach()[tuple(slice(None, None, max(1, size // _SAMPLES)) for size in weight.shape[:2])]
        return float(part.sum(dtype=torch.float64))

    stored = [tensor for weight in model.parameters() for tensor in _stored(weight)]
    try:
        return tuple((tensor.data_ptr(), sample(tensor)) for tensor in stored)
    except (RuntimeError, TypeError, AttributeError):
        return None


def _stored(weight: Tensor) -> list[Tensor]:
    """The plain tensors in which a weight is stored: quantized ones are wrappers of several."""
    flatten = getattr(weight, "__tensor_flatten__", None)
    if flatten is None:
        return [weight]
    return [tensor for name in flatten()[0] for tensor in _stored(getattr(weight, name))]


def to_device_of(module: nn.Module, tensor: Tensor) -> Tensor:
    """The tensor where the module's weights are; where it is if they are offloaded, and loaded at each call."""
    device = next(module.parameters()).device
    return tensor if device.type == "meta" else tensor.to(device)


def _sees_itself_alone(kernel: Kernel, batch: int) -> bool:
    values, outputs, share = _first(kernel, batch)
    rest = (outputs - share * values).norm(dim=-1)
    return bool((rest <= _PARALLEL * outputs.norm(dim=-1).clamp_min(1e-12)).all())


def _leaving(kernel: Kernel, batch: int) -> Tensor | None:
    """batch × head × width: the gradient that comes to v(0) from later positions; None where none comes."""
    if kernel.values_gradient is None or kernel.outputs_gradient is None:
        return None
    _, _, share = _first(kernel, batch)
    back = _by_input(kernel.values_gradient, batch)
    tensor = _grouped(_by_input(kernel.outputs_gradient, batch), back.shape[1])
    leaving: Tensor = back - (share * tensor).sum(2)
    return leaving


def _first(kernel: Kernel, batch: int) -> tuple[Tensor, Tensor, Tensor]:
    """v(0), o(0) and the a of o(0) = a · v(0), as batch × value head × query heads that share it × width (or 1)."""
    values = _by_input(kernel.values, batch)
    outputs = _grouped(_by_input(kernel.outputs, batch), values.shape[1])
    values = values[:, :, None]
    share = (outputs * values).sum(-1, keepdim=True) / values.square().sum(-1, keepdim=True).clamp_min(1e-30)
    return values, outputs, share


def _by_input(kept: Tensor, batch: int) -> Tensor:
    """batch × head × width in float64 of what was kept at one position; some models fold heads into the batch."""
    return kept.reshape(batch, -1, kept.shape[-1]).double()


def _grouped(heads: Tensor, groups: int) -> Tensor:
    """batch × group × head × width: query heads that share their values stand together."""
    return heads.reshape(len(heads), groups, -1, heads.shape[-1])


def _for_heads(mean: Tensor, heads: int) -> Tensor:
    """The mean values for so many heads: models repeat values for kernels that cannot share them, or leave it."""
    return mean.repeat_interleave(heads // len(mean), 0) if heads >= len(mean) else mean[:: len(mean) // heads]
