"""Where a way back through a run ends: at the model's input, and at nothing else.

While the mode looks on, the rows that are taken of the model's embedding (or pixels, which have a gradient already) are
the one leaf of the autograd graph; of an encoder–decoder, those of the source and of the output. Parameters enter each
call as constants, so that what their gradients would need is not kept, and no flag of them is touched; where they were
constants before, there is a way back all the same. `GradientCheck` finds operations at which it breaks off.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import Node
from torch.overrides import TorchFunctionMode

from attnx.capturing.untouched import parameters_of

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


class GradientCheck:
    """Finds an operation that hands no gradient back, so that what flows through it would be missing without a word.

    Kernels of quantized weights may compute where autograd does not see it, have no backward, or return None.
    """

    def __init__(self) -> None:
        self.operation: str | None = None
        """The first that was seen."""

    def called(self, func: Callable[..., Any], args: Sequence[Any], result: Any) -> None:
        """Look at a call of torch's functions: an operator of an extension, or a linear map by weights of any class."""
        if func is not F.linear and not isinstance(func, _OPERATORS):
            return
        if not isinstance(result, Tensor) or not result.is_floating_point() or not torch.is_grad_enabled():
            return
        if any(isinstance(one, Tensor) and one.requires_grad and not one.is_leaf for one in args):
            node, name = result.grad_fn, f"{func}" if func is not F.linear else f"a linear map by {_weights(args)}"
            if node is None:
                self._lost(name)
            elif _has_no_backward(node):
                self._hook(node, name)

    def follow(self, scores: Tensor) -> Tensor:
        """Look at the autograd functions of extensions behind the scores, when their gradients are computed."""
        nodes, known = [scores.grad_fn], set()
        while nodes:
            node = nodes.pop()
            if node is None or node in known:
                continue
            known.add(node)
            nodes += [below for below, _ in node.next_functions]
            function = getattr(node, "_forward_cls", None)
            if function is not None:
                self._hook(node, function.__name__)
            elif _has_no_backward(node):
                self._hook(node, "an operator of an extension")
        return scores

    def _hook(self, node: Node, name: str) -> None:
        def passed(below: Sequence[Tensor | None], above: Sequence[Tensor | None]) -> None:
            reached = any(gradient is not None and bool(gradient.any()) for gradient in above)
            if reached and all(gradient is None for gradient in below):
                self._lost(name)

        node.register_hook(passed)

    def _lost(self, name: str) -> None:
        self.operation = self.operation or name


_OPERATORS = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)


def _weights(args: Sequence[Any]) -> str:
    """The class of the weights that a linear map is called with."""
    return type(args[1]).__name__ if len(args) > 1 else "its weights"


def no_gradient(model: nn.Module, operation: str) -> str:
    """Why slopes of the model would be wrong."""
    return (
        f"{type(model).__name__} computes with {operation}, which hands no gradient back, as kernels of quantised "
        "weights often do"
    )


def _has_no_backward(node: Node) -> bool:
    """Whether torch put this in the graph for an operator that has no formula for its gradient."""
    return "NotImplemented" in node.name()


def is_table_of(module: nn.Module, weight: Tensor) -> bool:
    """Whether a call takes rows of the module's table, which may have been loaded for this very call."""
    table = getattr(module, "weight", None)
    if isinstance(table, Tensor) and table.is_meta and table.shape == weight.shape:
        # Of weights that are tied, as T5's, each module loads a copy.
        return any(torch.equal(loaded, weight) for loaded in parameters_of(module))
    return isinstance(table, Tensor) and _same_rows(weight, table)


def _same_rows(weight: Tensor, wanted: Tensor) -> bool:
    """Whether both are one table; a parameter may come as a constant."""
    return (weight.data_ptr(), weight.shape) == (wanted.data_ptr(), wanted.shape)
