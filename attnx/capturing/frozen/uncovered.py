"""Which operation of a model is not covered, when what flows back through the frozen model does not add up.

A covered operation is linear in what it carries: its gradient times its input is its output. Here each call without a
rule is tried for that, by itself, with a random direction. It is slow, and done only when something is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from attnx.capturing.entering import Entry
from attnx.capturing.frozen.mode import Freezing, Function
from attnx.capturing.frozen.path import Path
from attnx.capturing.frozen.rules import freezing
from attnx.capturing.untouched import looking_on
from attnx.capturing.watch import undisturbed

_SLACK = 1e-2


def first_uncovered(model: nn.Module, scores: Callable[[], Any], path: Path, entry: Entry) -> str:
    """The first operation that does not add up, and its module, in a few words."""
    mode = freezing(model, path, entry, made=_Trying)
    assert isinstance(mode, _Trying)
    with undisturbed(model, gradients=True), looking_on(mode):
        scores()
    mode.forget()
    if mode.found is None:
        return "the model computes something outside of torch's functions, or changes a tensor in place"
    module, operation = mode.found
    return f"{operation} in {module or 'the model'} is not covered"


class _Trying(Freezing):
    found: tuple[str, str] | None = None

    def untold(self, func: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if self.found is None and func.__name__[-1:] != "_" and not self._is_linear(func, args, kwargs):
            self.found = (self.caller(), getattr(func, "__name__", repr(func)))
        return super().untold(func, args, kwargs)

    def _is_linear(self, func: Function, args: list[Any], kwargs: dict[str, Any]) -> bool:
        moving = [one for one in _tensors((args, kwargs)) if one.requires_grad]
        if not moving or not torch.is_grad_enabled():
            return True
        copies = {id(one): one.detach().clone().requires_grad_() for one in moving}
        given, named = _with_copies(args, copies), _with_copies(kwargs, copies)
        results = [one for one in _tensors(func(*given, **named)) if one.requires_grad]
        if not results:
            return True
        generator = torch.Generator().manual_seed(0)
        directions = [torch.randn(one.shape, generator=generator).to(one) for one in results]
        slopes = torch.autograd.grad(results, list(copies.values()), directions, allow_unused=True)
        given_out = [(one.detach() * way).double() for one, way in zip(results, directions, strict=True)]
        carried = [
            one.detach() * slope for one, slope in zip(copies.values(), slopes, strict=True) if slope is not None
        ]
        missing = sum(float(one.sum()) for one in given_out) - sum(float(one.sum()) for one in carried)
        return abs(missing) <= _SLACK * sum(float(one.abs().sum()) for one in given_out)


def _tensors(given: Any) -> list[Tensor]:
    if isinstance(given, Tensor):
        return [given]
    inner = given.values() if isinstance(given, dict) else given if isinstance(given, (list, tuple)) else ()
    return [tensor for one in inner for tensor in _tensors(one)]


def _with_copies(given: Any, copies: dict[int, Tensor]) -> Any:
    if isinstance(given, Tensor):
        return copies.get(id(given), given)
    if isinstance(given, dict):
        return {name: _with_copies(one, copies) for name, one in given.items()}
    return type(given)(_with_copies(one, copies) for one in given) if type(given) in (list, tuple) else given
