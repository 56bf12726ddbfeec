"""Linear maps by the quicker of torch's two libraries, and only of the rows that are read: equal but for rounding.

torch hands float32 products on a CPU to MKL, which keeps AVX-512 for the processors of its own maker. oneDNN, which
torch has with it, takes what the processor has. `python -m tests.benchmarks.linear_map` prints both. Used where many
variants of an input are run and a score or its slope by the input is read; what is watched runs as it always does.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.overrides import TorchFunctionMode


class LinearMaps(TorchFunctionMode):
    """Linear maps run by the quicker library while this looks on. Slopes go back to what they took; weights get none.

    Maps are counted from the `begin` of a forward. Of those in `unread` only the rows at the answer's position are
    computed, the others are 0: nothing reads them (`references.unread_rows`).
    """

    def __init__(self) -> None:
        super().__init__()
        self.unread: frozenset[int] = frozenset()
        self.count = 0
        self._position: Tensor | None = None

    def begin(self, position: Tensor | None) -> None:
        """A forward of a batch begins; its answers are read at these positions, one for each input, or anywhere."""
        self.count, self._position = 0, position

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func is not F.linear:
            return func(*args, **(kwargs or {}))
        number, self.count = self.count, self.count + 1
        taken, weight, bias = _linear(*args, **(kwargs or {}))
        if number in self.unread and self._position is not None and taken.ndim == 3:
            inputs = torch.arange(len(taken), device=taken.device)
            found = _map(taken[inputs, self._position], weight, bias)
            whole = found.new_zeros(*taken.shape[:2], found.shape[-1])
            whole[inputs, self._position] = found
            return whole
        return _map(taken, weight, bias)


@cache
def quicker_by_onednn() -> bool:
    """Whether MKL would leave half of this processor unused, and oneDNN gives what it gives."""
    wide = torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    by_mkl = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
    return wide and bool(by_mkl) and "Intel" not in _maker() and _agrees()


def by_onednn(taken: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(taken, weight, bias, "none", [], "")
    return product


def _map(taken: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    plain = all(one is None or _plain(one) for one in (taken, weight, bias)) and quicker_by_onednn()
    if plain and not torch.is_grad_enabled():
        return by_onednn(taken, weight, bias)
    if plain and taken.requires_grad:
        found: Tensor = _WithSlope.apply(taken, weight, bias)  # type: ignore[no-untyped-call]
        return found
    return F.linear(taken, weight, bias)


class _WithSlope(torch.autograd.Function):
    """The operator has no way back of its own."""

    @staticmethod
    def forward(ctx: Any, taken: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.weight = weight
        return by_onednn(taken, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None, None]:
        return by_onednn(slope, ctx.weight.detach().t(), None), None, None


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor | None]:
    """The arguments of `F.linear`, however they were given."""
    return input, weight, bias


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
        there, back = by_onednn(taken, weight, bias), by_onednn(taken @ weight.t(), weight.t(), None)
        expected = F.linear(taken, weight, bias), taken @ weight.t() @ weight
        return all(torch.allclose(*pair, atol=1e-4) for pair in zip((there, back), expected, strict=True))
    except (AttributeError, RuntimeError, TypeError):
        return False
