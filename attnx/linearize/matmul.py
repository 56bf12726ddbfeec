"""Linear maps by the faster of torch's two libraries, of the rows that are read, and of equal rows once.

Equal but for rounding. Used where many variants of an input are run and only a score or its gradient is read.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from attnx.hooks import Function, GradientCheck, TracingMode


@cache
def prefers_onednn() -> bool:
    """Whether MKL would leave half of this processor unused, and oneDNN gives what it gives."""
    wide = torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    by_mkl = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
    return wide and bool(by_mkl) and "Intel" not in _vendor() and _onednn_agrees()


def onednn_linear(states: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(_dense(states), _dense(weight), bias, "none", [], "")
    return product


def _dense(matrix: Tensor) -> Tensor:
    """Without gaps, as it is or transposed: for anything else oneDNN has only its reference, a hundred times slower."""
    return matrix if matrix.ndim == 2 and matrix.t().is_contiguous() else matrix.contiguous()


def can_use_onednn(*tensors: Tensor | None) -> bool:
    """Whether oneDNN can multiply these, and is faster at it; None is for a bias that is not there.

    Under autocast torch's own maps are of another precision, which these would not be.
    """
    plain = all(tensor is None or _is_plain(tensor) for tensor in tensors)
    return plain and not torch.is_autocast_enabled("cpu") and prefers_onednn()


def _is_plain(tensor: Tensor) -> bool:
    ordinary = type(tensor) in (Tensor, torch.nn.Parameter) and tensor.layout is torch.strided
    return ordinary and tensor.dtype is torch.float32 and tensor.device.type == "cpu" and tensor.numel() > 0


def _vendor() -> str:
    """Who made the processor, as far as the system says."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith("vendor_id")), "")


def _onednn_agrees() -> bool:
    """Tried once in a process: the operator is torch's own, but not of its public API."""
    random = torch.Generator().manual_seed(0)
    states, weight, bias = (torch.randn(shape, generator=random) for shape in ((3, 5, 32), (48, 32), (48,)))
    try:
        results = onednn_linear(states, weight, bias), onednn_linear(states @ weight.t(), weight.t())
        expected = F.linear(states, weight, bias), states @ weight.t() @ weight
        return all(torch.allclose(*pair, atol=1e-4) for pair in zip(results, expected, strict=True))
    except (AttributeError, RuntimeError, TypeError):
        return False


class OneDnnMode(TracingMode):
    """Linear maps of a run without gradients by the faster library."""

    def call(self, func: Function, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        fast = func is F.linear and not kwargs and not torch.is_grad_enabled() and can_use_onednn(*args)
        return onednn_linear(*args) if fast else func(*args, **kwargs)


_FEW = 1 / 2
"""Of all rows: with more kinds than that, looking for them costs what it saves."""


@dataclass(frozen=True, eq=False)
class EqualRows:
    """Which rows of a batch are of one kind."""

    kind: Tensor
    """Of each row, inputs after one another."""
    first: Tensor
    """A row of each kind."""

    @classmethod
    def of(cls, inputs: Mapping[str, Any]) -> EqualRows | None:
        """By the tokens of a batch on a CPU; None where it has none, or hardly any twice."""
        ids = inputs.get("input_ids")
        if not isinstance(ids, Tensor) or ids.ndim != 2 or ids.device.type != "cpu":
            return None
        length = ids.shape[1]
        kinds, kind = torch.unique((ids * length + torch.arange(length)).flatten(), return_inverse=True)
        if len(kinds) > _FEW * len(kind):
            return None
        return cls(kind, torch.empty_like(kinds).scatter_(0, kind, torch.arange(len(kind))))

    def equal(self, states: Tensor) -> bool:
        """Whether the rows of a kind are equal, to the last bit."""
        if states.shape[:2].numel() != len(self.kind) or states.device.type != "cpu":
            return False
        return torch.equal(self.sample(states)[self.kind].view_as(states), states)

    def sample(self, states: Tensor) -> Tensor:
        """A row of each kind."""
        return states.flatten(0, 1)[self.first]

    def spread(self, rows: Tensor, states: Tensor) -> Tensor:
        """The results of the sample, for all rows."""
        return rows[self.kind].view(*states.shape[:2], -1)


class LinearLayerMode(TracingMode):
    """Linear maps by the faster library. Gradients go back to their inputs; weights get none.

    Maps are counted from the `begin` of a forward. Of those in `unread` only the rows at the scored position are
    computed, the others are 0: nothing reads them. Before the first attention the rows of variants are `EqualRows`, and
    one of each kind is computed.
    """

    def __init__(self, gradients: GradientCheck | None = None) -> None:
        super().__init__()
        self._gradients = gradients
        self.unread: frozenset[int] = frozenset()
        self.left_out: set[int] = set()
        """Those of `unread` that this forward has reached, and has left rows out of."""
        self.count = 0
        self._position: Tensor | None = None
        self._longer_than = 0
        self._equal_rows: EqualRows | None = None

    def begin(self, position: Tensor | None, equal_rows: EqualRows | None = None) -> None:
        """A forward of a batch begins; scores are read at these positions, one for each input, or anywhere."""
        self.count, self._position, self._equal_rows, self.left_out = 0, position, equal_rows, set()
        self._longer_than = int(position.max()) if self.unread and position is not None else 0

    def call(self, func: Function, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        result = self._linear(*args, **kwargs) if func is F.linear else func(*args, **kwargs)
        if self._gradients is not None:
            self._gradients.called(func, args, result)
        return result

    def _linear(self, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        number, self.count = self.count, self.count + 1
        # XLNet has positions first, and a head may get the scored row alone.
        position = self._position if input.ndim == 3 and input.shape[1] > self._longer_than else None
        if number in self.unread and position is not None and len(input) == len(position):
            self.left_out.add(number)
            inputs = torch.arange(len(input), device=input.device)
            rows = _map(input[inputs, position], weight, bias)
            result = rows.new_zeros(*input.shape[:2], rows.shape[-1])
            result[inputs, position] = rows
            return result
        if self._equal_rows is not None and input.ndim == 3 and not torch.is_grad_enabled():
            if self._equal_rows.equal(input):
                return self._equal_rows.spread(_map(self._equal_rows.sample(input), weight, bias), input)
            self._equal_rows = None  # positions have been mixed, and stay so
        return _map(input, weight, bias)


def _map(states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    plain = can_use_onednn(states, weight, bias)
    if plain and not torch.is_grad_enabled():
        return onednn_linear(states, weight, bias)
    if plain and states.requires_grad:
        # Of more axes than two the operator returns a view, which could not be changed in place, as DeBERTa does.
        rows: Tensor = _OneDnnLinear.apply(states.reshape(-1, states.shape[-1]), weight, bias)  # type: ignore[no-untyped-call]
        return rows.view(*states.shape[:-1], -1)
    return F.linear(states, weight, bias)


class _OneDnnLinear(torch.autograd.Function):
    """The operator has no backward of its own."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.weight = weight
        return onednn_linear(states, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return onednn_linear(gradient, ctx.weight.detach().t()), None, None
