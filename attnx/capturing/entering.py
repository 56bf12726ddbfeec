"""Where a way back through a run ends: at the model's input, and at nothing else.

While the mode looks on, the rows that are taken of the model's embedding (or pixels, which have a gradient already) are
the one leaf of the autograd graph; of an encoder–decoder, those of the source and of the output. Parameters enter each
call as constants, so that what their gradients would need is not kept, and no flag of them is touched; where they were
constants before, there is a way back all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

Entry: TypeAlias = nn.Module | Tensor | tuple[nn.Module | Tensor, ...]
"""The module that embeds the input, or the input itself; several of an encoder–decoder, the source's first."""


class StandingIn(TorchFunctionMode):
    """Rows that stand in for the first taken of an embedding: how numbers enter a model that takes ids alone."""

    def __init__(self, weight: Tensor, rows: Tensor) -> None:
        super().__init__()
        self._weight, self._rows = weight, rows
        self.entered = False

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = dict(kwargs or {})
        if not self.entered and getattr(func, "__name__", "") == "embedding":
            taken = named["weight"] if "weight" in named else args[1]
            if _same_rows(taken, self._weight):
                self.entered = True
                return self._rows.clone()
        return func(*args, **named)


class Entering(TorchFunctionMode):
    """Each entry is a module that embeds an input, or an input itself; one module may be entered twice."""

    def __init__(self, *entries: nn.Module | Tensor) -> None:
        super().__init__()
        self._leaves = [one for one in entries if isinstance(one, Tensor)]
        self._embeddings = [one for one in entries if isinstance(one, nn.Module)]

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        taken = [self._taken(one) for one in args]
        named = {name: self._taken(one) for name, one in (kwargs or {}).items()}
        result = func(*taken, **named)
        if self._embeddings and getattr(func, "__name__", "") == "embedding":
            return self._entered(result, named["weight"] if "weight" in named else taken[1])
        return result

    def _entered(self, rows: Tensor, weight: Tensor) -> Tensor:
        """The first rows of an embedding, as a leaf: GPT-2 takes kinds of tokens from the same rows, later."""
        for place, module in enumerate(self._embeddings):
            if is_table_of(module, weight):
                del self._embeddings[place]
                self._leaves.append(rows.detach().requires_grad_(torch.is_grad_enabled()))
                return self._leaves[-1].clone()  # to which BLIP adds places, without asking for another tensor
        return rows

    def _taken(self, one: Any) -> Any:
        if isinstance(one, Tensor):
            leaf = any(one is each for each in self._leaves)
            return one.detach() if one.requires_grad and one.is_leaf and not leaf else one
        return type(one)(map(self._taken, one)) if type(one) in (list, tuple) else one


def is_table_of(module: nn.Module, weight: Tensor) -> bool:
    """Whether a call takes rows of the module's table, which may have been loaded for this very call."""
    table = getattr(module, "weight", None)
    return isinstance(table, Tensor) and _same_rows(weight, table)


def _same_rows(weight: Tensor, wanted: Tensor) -> bool:
    """Whether both are one table; a parameter may come as a constant."""
    return (weight.data_ptr(), weight.shape) == (wanted.data_ptr(), wanted.shape)
