"""What every mode that traces torch's functions shares, and the modes that replace or follow a model's input.

Torch passes each call of the thread to the active `TorchFunctionMode`, so a run is observed without hooks.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import FrameType
from typing import Any, Generic, TypeAlias, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import Node
from torch.overrides import TorchFunctionMode

from attnx.hooks.patching import parameters_of

T = TypeVar("T")
Function: TypeAlias = Callable[..., Any]
Entry: TypeAlias = nn.Module | Tensor | tuple[nn.Module | Tensor, ...]
"""The module that embeds the input, or the input itself; of an encoder–decoder several, the encoder's first."""


class TracingMode(TorchFunctionMode):
    """A mode whose `call` stands in for each call of torch's functions."""

    def __torch_function__(
        self, func: Function, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return self.call(func, getattr(func, "__name__", ""), args, dict(kwargs or {}))

    def call(self, func: Function, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        raise NotImplementedError


class TensorMap(Generic[T]):
    """A value for each of some tensors, for as long as the tensor lives.

    `torch.utils.weak.WeakIdKeyDictionary` runs Python when a tensor dies: a Ctrl-C that arrives there is lost.
    """

    def __init__(self) -> None:
        self._values: dict[int, tuple[weakref.ref[Tensor], T]] = {}

    def __setitem__(self, tensor: Tensor, value: T) -> None:
        key = id(tensor)
        self._values[key] = weakref.ref(tensor, partial(self._values.pop, key)), value

    def get(self, tensor: Any) -> T | None:
        entry = self._values.get(id(tensor))
        return entry[1] if entry is not None and entry[0]() is tensor else None

    def __bool__(self) -> bool:
        return bool(self._values)

    def clear(self) -> None:
        self._values.clear()


def tensors_in(nested: Any) -> Iterator[Tensor]:
    """The tensors of an argument or an output, in order; a `torch.Size` has none."""
    if isinstance(nested, Tensor):
        yield nested
    elif isinstance(nested, Mapping) or (isinstance(nested, (tuple, list)) and not isinstance(nested, torch.Size)):
        for part in nested.values() if isinstance(nested, Mapping) else nested:
            yield from tensors_in(part)


def running_modules(names: Mapping[int, str]) -> Iterator[int]:
    """The ids of the named modules whose code is running, the innermost first, read off the call stack.

    Frames outside the model are not looked at: reading `f_locals` keeps everything in a frame alive.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = id(frame.f_locals.get("self"))
        if module in names:
            yield module
            if names[module] == "":
                return
        frame = frame.f_back


class EmbeddingOverride(TracingMode):
    """Give `rows` for the first lookup in the table `weight`: numbers as the input of a model that takes only ids."""

    def __init__(self, weight: Tensor, rows: Tensor) -> None:
        super().__init__()
        self._weight, self._rows = weight, rows
        self.used = False

    def call(self, func: Function, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if not self.used and name == "embedding" and _same_table(_looked_up(args, kwargs), self._weight):
            self.used = True
            return self._rows.clone()
        return func(*args, **kwargs)


class InputLeaves(TracingMode):
    """Let gradients end at the entries: the rows first taken of each embedding, or the inputs themselves.

    Parameters enter each call as constants, so that nothing is kept for their gradients and no flag is changed.
    """

    def __init__(self, *entries: nn.Module | Tensor) -> None:
        super().__init__()
        self._leaves = [entry for entry in entries if isinstance(entry, Tensor)]
        self._embeddings = [entry for entry in entries if isinstance(entry, nn.Module)]

    def call(self, func: Function, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        args = [self._constant(argument) for argument in args]
        kwargs = {key: self._constant(argument) for key, argument in kwargs.items()}
        result = func(*args, **kwargs)
        # Only the first rows: GPT-2 looks up token types in the same table later.
        if name == "embedding" and take_table(self._embeddings, _looked_up(args, kwargs)):
            self._leaves.append(result.detach().requires_grad_(torch.is_grad_enabled()))
            return self._leaves[-1].clone()  # BLIP adds positions to it in place
        return result

    def _constant(self, argument: Any) -> Any:
        if isinstance(argument, Tensor):
            parameter = argument.requires_grad and argument.is_leaf and all(argument is not x for x in self._leaves)
            return argument.detach() if parameter else argument
        return type(argument)(map(self._constant, argument)) if type(argument) in (list, tuple) else argument


def _looked_up(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
    table: Tensor = kwargs["weight"] if "weight" in kwargs else args[1]
    return table


def take_table(embeddings: list[nn.Module], weight: Tensor) -> bool:
    """Remove the module whose table this is from the list; false where it is of none."""
    index = next((index for index, module in enumerate(embeddings) if _is_table_of(module, weight)), None)
    if index is not None:
        del embeddings[index]
    return index is not None


def _is_table_of(module: nn.Module, weight: Tensor) -> bool:
    table = getattr(module, "weight", None)
    if isinstance(table, Tensor) and table.is_meta and table.shape == weight.shape:
        # Offloaded: of tied weights, as T5's, each module loads a copy for the call.
        return any(torch.equal(loaded, weight) for loaded in parameters_of(module))
    return isinstance(table, Tensor) and _same_table(weight, table)


def _same_table(weight: Tensor, other: Tensor) -> bool:
    """By memory, because a parameter may come as a constant."""
    return (weight.data_ptr(), weight.shape) == (other.data_ptr(), other.shape)


class GradientCheck:
    """Finds an operation that hands no gradient back, so that what flows through it would be missing silently.

    Kernels of quantized weights may compute where autograd does not see it, have no backward, or return None.
    """

    def __init__(self) -> None:
        self.operation: str | None = None
        """The first that was found."""

    def called(self, func: Function, args: Sequence[Any], result: Any) -> None:
        """Check a call: only operators of extensions, and linear maps by weights of any class, can fail."""
        if func is not F.linear and not isinstance(func, _OPERATORS):
            return
        if not isinstance(result, Tensor) or not result.is_floating_point() or not torch.is_grad_enabled():
            return
        if any(isinstance(argument, Tensor) and argument.requires_grad and not argument.is_leaf for argument in args):
            weights = type(args[1]).__name__ if len(args) > 1 else "its weights"
            self._check(result.grad_fn, f"a linear map by {weights}" if func is F.linear else f"{func}")

    def follow(self, scores: Tensor) -> Tensor:
        """Check the autograd functions of extensions in the graph of the scores when gradients are computed."""
        nodes, visited = [scores.grad_fn], set()
        while nodes:
            node = nodes.pop()
            if node is None or node in visited:
                continue
            visited.add(node)
            nodes += [below for below, _ in node.next_functions]
            function = getattr(node, "_forward_cls", None)
            if function is not None:
                self._register(node, function.__name__)
            else:
                self._check(node, "an operator of an extension")
        return scores

    def _check(self, node: Node | None, name: str) -> None:
        if node is None:
            self._lost(name)
        elif "NotImplemented" in node.name():  # torch's node for an operator without a formula of its gradient
            self._register(node, name)

    def _register(self, node: Node, name: str) -> None:
        def check(gradients: Sequence[Tensor | None], outputs: Sequence[Tensor | None]) -> None:
            reached = any(gradient is not None and bool(gradient.any()) for gradient in outputs)
            if reached and all(gradient is None for gradient in gradients):
                self._lost(name)

        node.register_hook(check)

    def _lost(self, name: str) -> None:
        self.operation = self.operation or name


_OPERATORS = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)


def missing_gradient_reason(model: nn.Module, operation: str) -> str:
    return (
        f"{type(model).__name__} computes with {operation}, which hands no gradient back, as kernels of quantised "
        "weights often do"
    )
