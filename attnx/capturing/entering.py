"""Where a way back through a run ends: at the model's input, and at nothing else.

While the mode looks on, the rows that are taken of the model's embedding (or pixels, which have a gradient already) are
the one leaf of the autograd graph. Parameters enter each call as constants, so that what their gradients would need is
not kept, and no flag of them is touched; where they were constants before, there is a way back all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


class Entering(TorchFunctionMode):
    """`entry` is the module that embeds the input, or the input itself."""

    def __init__(self, entry: nn.Module | Tensor) -> None:
        super().__init__()
        self._leaf = entry if isinstance(entry, Tensor) else None
        self._embedding = None if isinstance(entry, Tensor) else getattr(entry, "weight", None)

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
        if self._leaf is None and getattr(func, "__name__", "") == "embedding":
            return self._entered(result, named["weight"] if "weight" in named else taken[1])
        return result

    def _entered(self, rows: Tensor, weight: Tensor) -> Tensor:
        """The first rows of the embedding, as the leaf: GPT-2 takes kinds of tokens from the same rows, later."""
        wanted = self._embedding
        if wanted is None or (weight.data_ptr(), weight.shape) != (wanted.data_ptr(), wanted.shape):
            return rows
        self._leaf = rows.detach().requires_grad_(torch.is_grad_enabled())
        return self._leaf

    def _taken(self, one: Any) -> Any:
        if isinstance(one, Tensor):
            return one.detach() if one.requires_grad and one.is_leaf and one is not self._leaf else one
        return type(one)(map(self._taken, one)) if type(one) in (list, tuple) else one
