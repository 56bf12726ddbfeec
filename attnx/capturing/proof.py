"""Proofs on every run: what was seen gives back what the kernel gave, and the model gave what it gives by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from attnx.attention.computed import full_precision, per_query_head
from attnx.attention.levels import all_keys
from attnx.capturing.record import Record
from attnx.errors import CaptureError

TOLERANCE = {torch.float16: 2e-2, torch.bfloat16: 8e-2}
"""How far two ways to compute the same numbers may differ in half precision; in float32, 1e-4."""

_ROWS_CHECKED = 8


def check_mixture(record: Record, weights: Tensor, values: Tensor, output: Tensor) -> None:
    """That these weights, and no others, made the kernel's output from the values: a few rows of it."""
    if bool(weights.isfinite().all()):  # what is not is reported with its layer when all layers are in
        rows = rows_checked(weights.shape[-2])
        _check_rows(weights[..., rows, :], values, output[..., rows, :], record.module)


def check_computed(record: Record, values: Tensor, output: Tensor) -> None:
    """The same for queries and keys that were kept."""
    rows = rows_checked(output.shape[-2])
    weights = torch.stack(
        [
            torch.cat([all_keys(one.rows(row, row + 1), one.mask.length) for row in rows], dim=1)
            for one in record.computed
        ]
    )
    if bool(weights.isfinite().all()):
        _check_rows(weights, values, output[..., rows, :], record.module)


def rows_checked(queries: int) -> list[int]:
    """The few rows, spread over all, on which a kernel's output is checked."""
    return list(range(0, queries, -(-queries // _ROWS_CHECKED)))


def check_output(seen: Any, plain: Any, model_name: str) -> None:
    """That the run that was watched gave what the model gives by itself."""
    for name, one, other in _paired_tensors(seen, plain):
        scale = 1 + float(other.detach().abs().nan_to_num(0, 0, 0).amax()) if other.numel() else 1.0
        slack = TOLERANCE.get(other.dtype, 1e-4) * scale
        if not torch.allclose(one.detach(), other.detach(), rtol=0, atol=slack, equal_nan=True):
            raise CaptureError(
                f"{model_name} gave other {name} while it was watched than in a plain run (difference "
                f"{float((one - other).detach().abs().amax()):.2g}): it is not deterministic in evaluation mode, or "
                "attnx does not fit it; please report the model"
            )


def _check_rows(weights: Tensor, values: Tensor, output: Tensor, module: str) -> None:
    if not bool(values.isfinite().all()):
        raise CaptureError(
            f"the values in {module or 'the model'} are not finite: the model's weights or its input have NaN or "
            "infinity. Check the checkpoint; half precision may need float32: model.float()"
        )
    values = values.detach().to(weights.dtype)
    values = per_query_head(values, weights.shape[1])
    with full_precision(weights.device.type):
        mixed = weights.detach() @ values
    seen = output.detach().to(weights.dtype)
    slack = TOLERANCE.get(output.dtype, 1e-4) * (1 + float(values.abs().amax()))
    if not torch.allclose(mixed, seen, rtol=0, atol=slack, equal_nan=True):
        raise CaptureError(
            f"the attention weights seen in {module or 'the model'} do not reproduce its output (difference "
            f"{float((mixed - seen).abs().amax()):.2g}); please report the model, and try backend='interface'"
        )


def _paired_tensors(seen: Any, plain: Any) -> list[tuple[str, Tensor, Tensor]]:
    if isinstance(plain, Tensor):
        return [("output", seen, plain)]
    if isinstance(plain, Mapping):
        pairs = [(name, seen[name], plain[name]) for name in plain if name in seen]
    else:
        pairs = [(f"output {index}", one, other) for index, (one, other) in enumerate(zip(seen, plain, strict=False))]
    return [(n, a, b) for n, a, b in pairs if isinstance(b, Tensor) and b.is_floating_point() and a.shape == b.shape]
