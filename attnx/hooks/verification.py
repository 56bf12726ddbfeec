"""Proofs on every run: what was seen gives back what the kernel gave, and the model gave what it gives by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from attnx.attention import autocast_disabled, pad_keys, repeat_kv
from attnx.errors import CaptureError
from attnx.hooks.record import Claim, Record

TOLERANCE = {torch.float16: 2e-2, torch.bfloat16: 8e-2}
"""How far two ways to compute the same numbers may differ in half precision; in float32, 1e-4."""

_ROWS_CHECKED = 8


def mixture_claims(record: Record, weights: Tensor, values: Tensor, output: Tensor) -> list[Claim]:
    """That these weights, and no others, made the kernel's output from the values: a few rows of it."""
    rows = rows_checked(weights.shape[-2])
    return _claims(weights[..., rows, :], values, output[..., rows, :], record.module)


def computed_claims(record: Record, values: Tensor, output: Tensor) -> list[Claim]:
    """The same for queries and keys that were kept."""
    rows = rows_checked(output.shape[-2])
    weights = torch.stack(
        [
            torch.cat([pad_keys(one.rows(row, row + 1), one.mask.length) for row in rows], dim=1)
            for one in record.computed
        ]
    )
    return _claims(weights, values, output[..., rows, :], record.module)


def rows_checked(queries: int) -> list[int]:
    """The few rows, spread over all, on which a kernel's output is checked."""
    return list(range(0, queries, -(-queries // _ROWS_CHECKED)))


def check_output(seen: Any, plain: Any, model_name: str) -> None:
    """That the run that was watched gave what the model gives by itself."""
    for name, tensor, other in _paired_tensors(seen, plain):
        scale = 1 + float(other.detach().abs().nan_to_num(0, 0, 0).amax()) if other.numel() else 1.0
        slack = TOLERANCE.get(other.dtype, 1e-4) * scale
        if not torch.allclose(tensor.detach(), other.detach(), rtol=0, atol=slack, equal_nan=True):
            raise CaptureError(
                f"{model_name} gave other {name} while it was watched than in a plain run (difference "
                f"{float((tensor - other).detach().abs().amax()):.2g}): it is not deterministic in evaluation mode, or "
                "attnx does not fit it; please report the model"
            )


def _claims(weights: Tensor, values: Tensor, output: Tensor, module: str) -> list[Claim]:
    """Of some rows, where these are finite: what is not is reported with its layer when all layers are in."""
    values = values.detach().to(weights.dtype)
    values = repeat_kv(values, weights.shape[1])
    with autocast_disabled(weights.device.type):
        mixed = weights.detach() @ values
    seen = output.detach().to(weights.dtype)
    largest, difference = values.abs().amax(), (mixed - seen).abs()
    alike = (mixed == seen) | (mixed.isnan() & seen.isnan())
    close = (alike | (difference <= TOLERANCE.get(output.dtype, 1e-4) * (1 + largest))).all()
    unknown, off = ~weights.detach().sum().isfinite(), difference.amax()

    def infinite() -> CaptureError:
        return CaptureError(
            f"the values in {module or 'the model'} are not finite: the model's weights or its input have NaN or "
            "infinity. Check the checkpoint; half precision may need float32: model.float()"
        )

    def unlike() -> CaptureError:
        return CaptureError(
            f"the attention weights seen in {module or 'the model'} do not reproduce its output (difference "
            f"{float(off):.2g}); please report the model, and try backend='interface'"
        )

    return [Claim(unknown | largest.isfinite(), infinite), Claim(unknown | close, unlike)]


def _paired_tensors(seen: Any, plain: Any) -> list[tuple[str, Tensor, Tensor]]:
    if isinstance(plain, Tensor):
        return [("output", seen, plain)]
    if isinstance(plain, Mapping):
        pairs = [(name, seen[name], plain[name]) for name in plain if name in seen]
    else:
        pairs = [(f"output {index}", one, other) for index, (one, other) in enumerate(zip(seen, plain, strict=False))]
    return [(n, a, b) for n, a, b in pairs if isinstance(b, Tensor) and b.is_floating_point() and a.shape == b.shape]
