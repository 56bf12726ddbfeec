"""Linear maps by the quicker of torch's two libraries, of the rows that are read, and of equal rows once.

Equal but for rounding. Used where many variants of an input are run and a score or its slope by the input is read; what
is watched runs as it always does. Which library is quicker is for `capturing.onednn` to say, which rows are equal for
`running.alike`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.overrides import TorchFunctionMode

from attnx.capturing.entering import GradientCheck
from attnx.capturing.onednn import by_onednn, can_be_quicker
from attnx.running.alike import Alike


class LinearMaps(TorchFunctionMode):
    """Linear maps run by the quicker library while this looks on. Slopes go back to what they took; weights get none.

    Maps are counted from the `begin` of a forward. Of those in `unread` only the rows at the answer's position are
    computed, the others are 0: nothing reads them (`references.unread_rows`). Before the first attention the rows of
    variants are `Alike`, and one of each kind is computed.
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
        self._alike: Alike | None = None

    def begin(self, position: Tensor | None, alike: Alike | None = None) -> None:
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
            found = _map(taken[inputs, self._position], weight, bias)
            whole = found.new_zeros(*taken.shape[:2], found.shape[-1])
            whole[inputs, self._position] = found
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
    plain = can_be_quicker(taken, weight, bias)
    if plain and not torch.is_grad_enabled():
        return by_onednn(taken, weight, bias)
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
        return by_onednn(taken, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None, None]:
        return by_onednn(slope, ctx.weight.detach().t()), None, None


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor | None]:
    """The arguments of `F.linear`, however they were given."""
    return input, weight, bias
