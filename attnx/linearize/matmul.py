"""Linear maps by the quicker of torch's two libraries, of the rows that are read, and of equal rows once.

Equal but for rounding. Used where many variants of an input are run and a score or its slope by the input is read; what
is watched runs as it always does. Which library is quicker is for `capturing.onednn` to say, which rows are equal for
`running.alike`.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.overrides import TorchFunctionMode

from attnx.hooks import GradientCheck


@cache
def prefers_onednn() -> bool:
    """Whether MKL would leave half of this processor unused, and oneDNN gives what it gives."""
    wide = torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    by_mkl = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
    return wide and bool(by_mkl) and "Intel" not in _maker() and _agrees()


def onednn_linear(taken: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(_dense(taken), _dense(weight), bias, "none", [], "")
    return product


def _dense(matrix: Tensor) -> Tensor:
    """Without gaps, as it is or turned: for anything else oneDNN has only its reference, a hundred times slower."""
    turned = matrix.ndim == 2 and matrix.t().is_contiguous()
    return matrix if turned else matrix.contiguous()


def can_use_onednn(*tensors: Tensor | None) -> bool:
    """Whether oneDNN can multiply these, and is quicker at it; None is for a bias that is not there.

    Under autocast torch's own maps are of another precision, which these would not be.
    """
    return (
        not torch.is_autocast_enabled("cpu")
        and all(tensor is None or _plain(tensor) for tensor in tensors)
        and prefers_onednn()
    )


class QuickMaps(TorchFunctionMode):
    """Linear maps of a run without gradients go by the quicker library while this looks on."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        quick = func is F.linear and not kwargs and not torch.is_grad_enabled() and can_use_onednn(*args)
        return onednn_linear(*args) if quick else func(*args, **(kwargs or {}))


def _plain(tensor: Tensor) -> bool:
    ordinary = type(tensor) in (Tensor, torch.nn.Parameter) and tensor.layout is torch.strided
    return ordinary and tensor.dtype is torch.float32 and tensor.device.type == "cpu" and tensor.numel() > 0


def _maker() -> str:
    """Who made the processor, as far as the system says."""
    try:
        name = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor()
    return next((line for line in name.splitlines() if line.startswith("vendor_id")), "")


def _agrees() -> bool:
    """Tried once a process: the operator is torch's own, but no promise of its surface."""
    random = torch.Generator().manual_seed(0)
    taken, weight, bias = (torch.randn(shape, generator=random) for shape in ((3, 5, 32), (48, 32), (48,)))
    try:
        there, back = onednn_linear(taken, weight, bias), onednn_linear(taken @ weight.t(), weight.t())
        expected = F.linear(taken, weight, bias), taken @ weight.t() @ weight
        return all(torch.allclose(*pair, atol=1e-4) for pair in zip((there, back), expected, strict=True))
    except (AttributeError, RuntimeError, TypeError):
        return False


_FEW = 1 / 2
"""Of all rows: with more kinds than that, looking for them costs what it saves."""


@dataclass(frozen=True, eq=False)
class EqualRows:
    """Which rows are of one kind."""

    kind: Tensor
    """Of each row of the batch, inputs after one another."""
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

    def holds(self, taken: Tensor) -> bool:
        """Whether the rows of a kind are equal, to the last bit."""
        if taken.shape[:2].numel() != len(self.kind) or taken.device.type != "cpu":
            return False
        return torch.equal(self.sample(taken)[self.kind].view_as(taken), taken)

    def sample(self, taken: Tensor) -> Tensor:
        """A row of each kind."""
        return taken.flatten(0, 1)[self.first]

    def spread(self, found: Tensor, taken: Tensor) -> Tensor:
        """What was found of the sample, for all rows."""
        return found[self.kind].view(*taken.shape[:2], -1)


class LinearLayerMode(TorchFunctionMode):
    """Linear maps run by the quicker library while this looks on. Slopes go back to what they took; weights get none.

    Maps are counted from the `begin` of a forward. Of those in `unread` only the rows at the answer's position are
    computed, the others are 0: nothing reads them (`references.unread_rows`). Before the first attention the rows of
    variants are `EqualRows`, and one of each kind is computed.
    """

    def __init__(self, gradients: GradientCheck | None = None) -> None:
        super().__init__()
        self._gradients = gradients
        self.unread: frozenset[int] = frozenset()
        self.left_out: set[int] = set()
        """Those of `unread` that this forward has come to, and has left rows out of."""
        self.count = 0
        self._position: Tensor | None = None
        self._longer_than = 0
        self._alike: EqualRows | None = None

    def begin(self, position: Tensor | None, alike: EqualRows | None = None) -> None:
        """A forward of a batch begins; its answers are read at these positions, one for each input, or anywhere."""
        self.count, self._position, self._alike, self.left_out = 0, position, alike, set()
        self._longer_than = int(position.max()) if self.unread and position is not None else 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func is not F.linear:
            result = func(*args, **(kwargs or {}))
        else:
            result = self._linear(*_linear(*args, **(kwargs or {})))
        if self._gradients is not None:
            self._gradients.called(func, args, result)
        return result

    def _linear(self, taken: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        number, self.count = self.count, self.count + 1
        if number in self.unread and self._has_answers(taken):
            self.left_out.add(number)
            inputs = torch.arange(len(taken), device=taken.device)
            tensor = _map(taken[inputs, self._position], weight, bias)
            whole = tensor.new_zeros(*taken.shape[:2], tensor.shape[-1])
            whole[inputs, self._position] = tensor
            return whole
        if self._alike is not None and taken.ndim == 3 and not torch.is_grad_enabled():
            if self._alike.holds(taken):
                return self._alike.spread(_map(self._alike.sample(taken), weight, bias), taken)
            self._alike = None  # positions have been mixed, and stay so
        return _map(taken, weight, bias)

    def _has_answers(self, taken: Tensor) -> bool:
        """Whether these are batch × position: XLNet has positions first, and a head may get the answer's row alone."""
        if self._position is None or taken.ndim != 3:
            return False
        return len(taken) == len(self._position) and taken.shape[1] > self._longer_than


def _map(taken: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    plain = can_use_onednn(taken, weight, bias)
    if plain and not torch.is_grad_enabled():
        return onednn_linear(taken, weight, bias)
    if plain and taken.requires_grad:
        # Of more axes than two the operator returns a view, and a view that an autograd function returns cannot be
        # changed in place, as DeBERTa does.
        matrix = taken.reshape(-1, taken.shape[-1])
        rows: Tensor = _WithSlope.apply(matrix, weight, bias)  # type: ignore[no-untyped-call]
        return rows.view(*taken.shape[:-1], -1)
    return F.linear(taken, weight, bias)


class _WithSlope(torch.autograd.Function):
    """The operator has no way back of its own."""

    @staticmethod
    def forward(ctx: Any, taken: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.weight = weight
        return onednn_linear(taken, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None, None]:
        return onednn_linear(slope, ctx.weight.detach().t()), None, None


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor | None]:
    """The arguments of `F.linear`, however they were given."""
    return input, weight, bias
