"""Checks of every run: the captured weights reproduce the kernel's output, and the observed model its plain output.

Checks of tensors are deferred to the end of a run, because reading one makes a GPU wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnx.attention import ComputedLayer, autocast_disabled, pad_keys, repeat_kv
from attnx.errors import CaptureError

TOLERANCE = {torch.float16: 2e-2, torch.bfloat16: 8e-2}
"""How far two ways to compute the same numbers may differ in half precision; in float32, 1e-4."""

_ROWS_CHECKED = 8


@dataclass(frozen=True, eq=False)
class DeferredCheck:
    passed: Tensor
    """One boolean, where it was computed."""
    error: Callable[[], Exception]


def verify(checks: Sequence[DeferredCheck]) -> None:
    """Raise the error of the first check that failed; one read for each device."""
    passed = [True] * len(checks)
    for device in {check.passed.device for check in checks}:
        indices = [index for index, check in enumerate(checks) if check.passed.device == device]
        for index, result in zip(indices, torch.stack([checks[i].passed for i in indices]).tolist(), strict=True):
            passed[index] = result
    if not all(passed):
        raise checks[passed.index(False)].error()


def rows_checked(queries: int) -> list[int]:
    """A few rows, spread over all, on which a kernel's output is checked."""
    return list(range(0, queries, -(-queries // _ROWS_CHECKED)))


def check_rows(weights: Tensor, values: Tensor, output: Tensor, module: str) -> list[DeferredCheck]:
    """That these weights made the kernel's output from the values, on a few rows."""
    rows = rows_checked(weights.shape[-2])
    return _reproduces(weights[..., rows, :], values, output[..., rows, :], module)


def check_computed(layers: Sequence[Any], values: Tensor, output: Tensor, module: str) -> list[DeferredCheck]:
    """The same for the queries and keys of a batch."""
    rows = rows_checked(output.shape[-2])
    return _reproduces(computed_rows(layers, rows), values, output[..., rows, :], module)


def computed_rows(layers: Sequence[ComputedLayer], rows: Sequence[int]) -> Tensor:
    """batch × head × row × key, of one layer for each input."""
    return torch.stack(
        [torch.cat([pad_keys(layer.rows(row, row + 1), layer.mask.length) for row in rows], 1) for layer in layers]
    )


def _reproduces(weights: Tensor, values: Tensor, output: Tensor, module: str) -> list[DeferredCheck]:
    """On rows that are finite: others are reported with their layer when all layers are known."""
    values = repeat_kv(values.detach().to(weights.dtype), weights.shape[1])
    with autocast_disabled(weights.device.type):
        mixed = weights.detach() @ values
    output_rows = output.detach().to(weights.dtype)
    largest, difference = values.abs().amax(), (mixed - output_rows).abs()
    equal = (mixed == output_rows) | (mixed.isnan() & output_rows.isnan())
    close = (equal | (difference <= TOLERANCE.get(output.dtype, 1e-4) * (1 + largest))).all()
    not_finite, off = ~weights.detach().sum().isfinite(), difference.amax()

    def infinite() -> CaptureError:
        return CaptureError(
            f"the values in {module or 'the model'} are not finite: the model's weights or its input have NaN or "
            "infinity. Check the checkpoint; half precision may need float32: model.float()"
        )

    def different() -> CaptureError:
        return CaptureError(
            f"the attention weights seen in {module or 'the model'} do not reproduce its output (difference "
            f"{float(off):.2g}); please report the model, and try backend='interface'"
        )

    return [DeferredCheck(not_finite | largest.isfinite(), infinite), DeferredCheck(not_finite | close, different)]


def check_output(observed: Any, plain: Any, model_name: str) -> None:
    """That the observed run gave what the model gives by itself."""
    for name, tensor, other in _paired_tensors(observed, plain):
        scale = 1 + float(other.detach().abs().nan_to_num(0, 0, 0).amax()) if other.numel() else 1.0
        tolerance = TOLERANCE.get(other.dtype, 1e-4) * scale
        if not torch.allclose(tensor.detach(), other.detach(), rtol=0, atol=tolerance, equal_nan=True):
            raise CaptureError(
                f"{model_name} gave other {name} while it was watched than in a plain run (difference "
                f"{float((tensor - other).detach().abs().amax()):.2g}): it is not deterministic in evaluation mode, or "
                "attnx does not fit it; please report the model"
            )


def _paired_tensors(observed: Any, plain: Any) -> list[tuple[str, Tensor, Tensor]]:
    if isinstance(plain, Tensor):
        return [("output", observed, plain)]
    if isinstance(plain, Mapping):
        pairs = [(name, observed[name], plain[name]) for name in plain if name in observed]
    else:
        pairs = [(f"output {index}", *pair) for index, pair in enumerate(zip(observed, plain, strict=False))]
    return [(n, a, b) for n, a, b in pairs if isinstance(b, Tensor) and b.is_floating_point() and a.shape == b.shape]
