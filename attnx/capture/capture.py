"""One call: run the model on inputs, return its attention, leave no trace."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from attnx.attention import AttentionTensor
from attnx.capture.assemble import assemble
from attnx.capture.kept import assemble_long
from attnx.capture.recompute import TOLERANCE
from attnx.capture.record import Extra, Recorder, Reduce
from attnx.capture.watch import Backend, choose_backend, undisturbed, unwrapped, watch
from attnx.errors import CaptureError, InputError
from attnx.long_attention import LongAttention

_proven: weakref.WeakSet[nn.Module] = weakref.WeakSet()
"""Models whose watched output was once compared with a plain run. The observer changes no operation: once is enough."""


@dataclass(frozen=True, eq=False)
class Captured:
    """A run of a batch: what the model returned, and the attention of each input without its padding."""

    output: Any
    attention: list[AttentionTensor]


@dataclass(frozen=True, eq=False)
class LongCaptured:
    """The same for long inputs: queries and keys are kept, and no weights."""

    output: Any
    attention: list[LongAttention]
    answered: tuple[int, ...] | None = None
    """The positions at which a language model's answer was computed; None for all."""


def capture(
    model: nn.Module,
    *,
    reduce: Reduce = None,
    extras: tuple[Extra, ...] = (),
    graph: bool = False,
    backend: Backend = "auto",
    within: str = "",
    **inputs: Any,
) -> AttentionTensor:
    """The attention of `model` on one input: `attnx.capture(model, **tokenizer(text, return_tensors="pt"))`.

    `reduce` ("mean", "max", "min" or a function) is applied to each layer as it arrives, so that all heads of all
    layers are never in memory together. `extras` may ask for "values" and "projections"; with `graph` the weights are
    part of the model's autograd graph. `within` picks one stack of a model that has several, by the beginning of its
    name.
    """
    captured = capture_batch(
        model, inputs, reduce=reduce, extras=extras, graph=graph, backend=backend, within=within
    ).attention
    if len(captured) != 1:
        raise InputError(
            f"capture() takes one input, this is a batch of {len(captured)}; "
            "use attnx.explain with a list, or: from attnx.capture import capture_batch"
        )
    return captured[0]


def capture_long(
    model: nn.Module, *, reduce: Reduce = None, backend: Backend = "auto", within: str = "", **inputs: Any
) -> LongAttention:
    """The attention of `model` on one long input: queries and keys of each layer, from which rows are computed.

    Methods take it like any attention. A layer whose attention cannot be computed from queries and keys (it is no
    fused kernel, or has a bias of its own) is held as it was seen; `reduce` is applied to those.
    """
    captured = capture_long_batch(model, inputs, reduce=reduce, backend=backend, within=within).attention
    if len(captured) != 1:
        raise InputError(f"capture_long() takes one input, this is a batch of {len(captured)}; give one at a time")
    return captured[0]


def capture_long_batch(
    model: nn.Module,
    inputs: Mapping[str, Any],
    *,
    reduce: Reduce = None,
    backend: Backend = "auto",
    within: str = "",
    answer_at: Sequence[int] | None = None,
) -> LongCaptured:
    """`capture_batch` for long inputs.

    With `answer_at` a language model answers at these positions only, if it can: its logits for 8192 positions and 50
    thousand tokens would take more memory than all attention here.
    """
    model = unwrapped(model)
    can_choose = answer_at is not None and "logits_to_keep" in signature(model.forward).parameters
    answered = tuple(dict.fromkeys(answer_at)) if answer_at is not None and can_choose else None
    if answered is not None:
        inputs = {**inputs, "logits_to_keep": torch.tensor(answered, device=_device(inputs))}
    output, recorder = _run(model, inputs, reduce=reduce, backend=backend, long=True)
    attention = assemble_long(recorder, type(model).__name__, padding=_real(inputs), within=within)
    _prove(model, inputs, output, backend)
    return LongCaptured(output, attention, answered)


def capture_batch(
    model: nn.Module,
    inputs: Mapping[str, Any],
    *,
    reduce: Reduce = None,
    extras: tuple[Extra, ...] = (),
    graph: bool = False,
    backend: Backend = "auto",
    within: str = "",
) -> Captured:
    """Run `model(**inputs)` on a batch, padded on the right or not at all, and return its output and attention."""
    model = unwrapped(model)
    output, recorder = _run(model, inputs, reduce=reduce, extras=extras, graph=graph, backend=backend)
    attention = assemble(recorder, type(model).__name__, padding=_real(inputs), within=within)
    _prove(model, inputs, output, backend)
    return Captured(output, attention)


def _run(model: nn.Module, inputs: Mapping[str, Any], *, backend: Backend, **how: Any) -> tuple[Any, Recorder]:
    """The model's output, and what was recorded meanwhile."""
    with watch(model, batch=_batch_size(inputs), backend=backend, **how) as recorder:
        output = model(**_without_cache(model, inputs))
    return output, recorder


def _prove(model: nn.Module, inputs: Mapping[str, Any], output: Any, backend: Backend) -> None:
    """That the output is the one of a plain run."""
    if choose_backend(model, backend) == "interface" or model not in _proven:
        with undisturbed(model):
            _check_output(output, model(**_without_cache(model, inputs)), type(model).__name__)
        _proven.add(model)


def _real(inputs: Mapping[str, Any]) -> Tensor | None:
    """batch × n, true where the attention mask says that a position is no padding."""
    padding = inputs.get("attention_mask")
    return padding.bool().cpu() if isinstance(padding, Tensor) and padding.ndim == 2 else None


def _without_cache(model: nn.Module, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """A whole input is read at once, so keys and values need not be kept for a next step."""
    if "use_cache" not in inputs and "use_cache" in signature(model.forward).parameters:
        return {**inputs, "use_cache": False}
    return dict(inputs)


def _device(inputs: Mapping[str, Any]) -> torch.device | None:
    return next((value.device for value in inputs.values() if isinstance(value, Tensor)), None)


def _batch_size(inputs: Mapping[str, Any]) -> int:
    for value in inputs.values():
        if isinstance(value, Tensor) and value.ndim >= 2:
            return value.shape[0]
    raise InputError(
        "capture needs the model's inputs as tensors with a batch axis: "
        'attnx.capture(model, **tokenizer(text, return_tensors="pt"))'
    )


def _check_output(seen: Any, plain: Any, model_name: str) -> None:
    """The run that was watched must have given what the model gives by itself."""
    for name, one, other in _paired_tensors(seen, plain):
        scale = 1 + float(other.detach().abs().nan_to_num(0, 0, 0).amax()) if other.numel() else 1.0
        slack = TOLERANCE.get(other.dtype, 1e-4) * scale
        if not torch.allclose(one.detach(), other.detach(), rtol=0, atol=slack, equal_nan=True):
            raise CaptureError(
                f"{model_name} gave other {name} while it was watched than in a plain run (difference "
                f"{float((one - other).detach().abs().amax()):.2g}): it is not deterministic in evaluation mode, or "
                "attnx does not fit it; please report the model"
            )


def _paired_tensors(seen: Any, plain: Any) -> list[tuple[str, Tensor, Tensor]]:
    if isinstance(plain, Tensor):
        return [("output", seen, plain)]
    if isinstance(plain, Mapping):
        pairs = [(name, seen[name], plain[name]) for name in plain if name in seen]
    else:
        pairs = [(f"output {index}", one, other) for index, (one, other) in enumerate(zip(seen, plain, strict=False))]
    return [(n, a, b) for n, a, b in pairs if isinstance(b, Tensor) and b.is_floating_point() and a.shape == b.shape]
