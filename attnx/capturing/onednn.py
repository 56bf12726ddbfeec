"""Products of float32 on a CPU by the quicker of torch's two libraries: equal but for rounding.

torch hands them to MKL, which keeps AVX-512 for the processors of its own maker. oneDNN, which torch has with it, takes
what the processor has. `python -m tests.benchmarks.linear_map` prints both.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode


@cache
def quicker_by_onednn() -> bool:
    """Whether MKL would leave half of this processor unused, and oneDNN gives what it gives."""
    wide = torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    by_mkl = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
    return wide and bool(by_mkl) and "Intel" not in _maker() and _agrees()


def by_onednn(taken: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(_dense(taken), _dense(weight), bias, "none", [], "")
    return product


def _dense(matrix: Tensor) -> Tensor:
    """Without gaps, as it is or turned: for anything else oneDNN has only its reference, a hundred times slower."""
    turned = matrix.ndim == 2 and matrix.t().is_contiguous()
    return matrix if turned else matrix.contiguous()


def can_be_quicker(*tensors: Tensor | None) -> bool:
    """Whether oneDNN can multiply these, and is quicker at it; None is for a bias that is not there.

    Under autocast torch's own maps are of another precision, which these would not be.
    """
    return (
        not torch.is_autocast_enabled("cpu")
        and all(one is None or _plain(one) for one in tensors)
        and quicker_by_onednn()
    )


class QuickMaps(TorchFunctionMode):
    """Linear maps of a run without gradients go by the quicker library while this looks on."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        quick = func is F.linear and not kwargs and not torch.is_grad_enabled() and can_be_quicker(*args)
        return by_onednn(*args) if quick else func(*args, **(kwargs or {}))


def _plain(tensor: Tensor) -> bool:
    ordinary = type(tensor) in (Tensor, torch.nn.Parameter) and tensor.layout is torch.strided
    return ordinary and tensor.dtype is torch.float32 and tensor.device.type == "cpu" and tensor.numel() > 0


def _maker() -> str:
    """Who made the processor, as far as the system says."""
    try:
        told = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor()
    return next((line for line in told.splitlines() if line.startswith("vendor_id")), "")


def _agrees() -> bool:
    """Tried once a process: the operator is torch's own, but no promise of its surface."""
    random = torch.Generator().manual_seed(0)
    taken, weight, bias = (torch.randn(shape, generator=random) for shape in ((3, 5, 32), (48, 32), (48,)))
    try:
        there, back = by_onednn(taken, weight, bias), by_onednn(taken @ weight.t(), weight.t())
        expected = F.linear(taken, weight, bias), taken @ weight.t() @ weight
        return all(torch.allclose(*pair, atol=1e-4) for pair in zip((there, back), expected, strict=True))
    except (AttributeError, RuntimeError, TypeError):
        return False
