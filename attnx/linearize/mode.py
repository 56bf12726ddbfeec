"""The mode that linearizes a model: its operations stay as they are, and their gradients are replaced by detach rules.

| operation | gradient |
|---|---|
| norm | mean as it is, scale constant |
| elementwise function with f(0) = 0 | the secant through 0: z · [f(z) / z] |
| other elementwise function (sigmoid, exp), denominator | a constant |
| product of two tensors that depend on the input | half to each factor |
| attention | shares for values and for scores, as the path says |
| all else | as it is |

An activation is one function of one tensor, however it is written: the results of elementwise operations are tagged
with the tensor that they are computed from, and a product of two such results is a function of it, too. Parameters
enter each call as constants, so that nothing of the model is changed. The rules are in `rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from attnx.errors import CaptureError
from attnx.hooks import Function, GradientCheck, TensorMap, TracingMode, running_modules
from attnx.linearize.autograd import LinearizedFunction, Recomputable, is_large, on_gradient, secant


@dataclass(frozen=True, eq=False)
class FunctionOf:
    """The tensor is an elementwise function of `root`; where it is one call, `compute` recomputes it."""

    root: Tensor
    compute: Callable[[Tensor], Tensor] | None = None


@dataclass(frozen=True)
class Softmax:
    """The tensor is the result of a softmax over its last axis: attention, if it goes on to mix values."""


@dataclass(frozen=True, eq=False)
class LinearMap:
    """The tensor is a linear map, which `compute` recomputes."""

    compute: Callable[[], Tensor]


@dataclass(frozen=True, eq=False)
class Ids:
    """The tensor has the ids of `origin` at these flat indices; some may have been replaced since."""

    origin: Tensor
    indices: Tensor


Tag: TypeAlias = FunctionOf | Softmax | LinearMap | Ids


def _versions(tensor: Tensor, tag: Tag) -> tuple[int, ...]:
    """How often what the tag describes was changed in place; attention and ids stay what they are."""
    if isinstance(tag, (Softmax, Ids)):
        return ()
    return (tensor._version, tag.root._version) if isinstance(tag, FunctionOf) else (tensor._version,)


@dataclass(frozen=True)
class Path:
    """How relevance passes attention: the share of the gradient that values and scores get."""

    name: str
    values: float
    scores: float
    """For queries and keys together."""
    linearized: bool = True
    """Whether norms, activations and products are linearized; if not, gradients are the model's own."""

    @property
    def queries(self) -> float:
        """What queries, and keys, get: of a linearized product each factor has half."""
        return self.scores / 2 if self.linearized else self.scores

    @property
    def conserves(self) -> bool:
        """Whether positions and biases add up to the score: a softmax that responds has a part that belongs to none."""
        return self.linearized and self.scores == 0


LRP = Path("lrp", values=1.0, scores=0.0)
ATTN_LRP = Path("attn_lrp", values=0.5, scores=0.5)

Rule: TypeAlias = Callable[["LinearizeMode", Function, list[Any], dict[str, Any]], Any]
"""What is done instead of a call: (mode, function, arguments, keyword arguments) → its result."""


@dataclass(eq=False)
class Kernel:
    """One attention call: the values that enter and the outputs, … × position × width, at the requested positions.

    Gradients are there after backward, None where none came.
    """

    module: str
    values: Tensor
    outputs: Tensor
    values_gradient: Tensor | None = None
    outputs_gradient: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Lookup:
    """Rows that were looked up in one table by the ids of an input, a leaf of the graph; or an input without ids."""

    rows: Tensor
    ids: Ids | None = None

    def by_input_id(self, numbers: Tensor, *, add: bool = False) -> Tensor:
        """Numbers of each row where the input has its id; with `add` summed where an id was looked up twice."""
        if self.ids is None or (self.ids.origin.ndim != self.ids.indices.ndim and _in_order(self.ids.indices)):
            return numbers
        result = numbers.new_zeros(self.ids.origin.numel(), numbers.shape[-1])
        indices = self.ids.indices.flatten().to(numbers.device)
        result.index_put_((indices,), numbers.reshape(-1, numbers.shape[-1]), accumulate=add)
        return result.reshape(*self.ids.origin.shape, -1)

    def is_transposed(self, states: Tensor) -> bool:
        """Whether states are position × batch × width, because ids were looked up so, as by XLNet."""
        if self.ids is None or self.ids.origin.ndim != 2 or states.shape[:2] != self.ids.origin.shape[::-1]:
            return False
        return _in_order(self.ids.indices.t())


def _in_order(indices: Tensor) -> bool:
    return torch.equal(indices.flatten(), torch.arange(indices.numel(), device=indices.device))


@dataclass
class Constants:
    """What biases and other constants add to the score: each times its own gradient, summed in backward."""

    total: float = 0.0
    size: float = 0.0
    """The sum of absolute values, with which rounding is compared."""

    def add(self, constant: Tensor | float, gradient: Tensor) -> None:
        if isinstance(constant, Tensor):
            shape = [1] * (gradient.ndim - constant.ndim) + list(constant.shape)
            part = float((gradient.sum_to_size(shape) * constant).sum(dtype=torch.float64))
        else:
            part = constant * float(gradient.sum(dtype=torch.float64))
        self.total += part
        self.size += abs(part)


class LinearizeMode(TracingMode):
    """While it is active in this thread, gradients of what the model computes are those of the linearized model."""

    def __init__(
        self,
        path: Path,
        rules: Mapping[str, Rule],
        *,
        names: Mapping[int, str],
        embeddings: Sequence[nn.Module] = (),
        leaves: Sequence[Tensor] = (),
        block_inputs: Mapping[int, Tensor] | None = None,
        ends: slice | None = None,
        repeated: bool = False,
    ) -> None:
        """`names` has the modules by their id, `block_inputs` what each block was last called with.

        The input is the rows first looked up in the table of each of the `embeddings`, or it is in `leaves`. Kernels
        are kept at the positions `ends`. For `repeated` backward passes more is kept of each call.
        """
        super().__init__()
        self.path, self.repeated = path, repeated
        self.embeddings, self.leaves = list(embeddings), list(leaves)
        self.entries = [[Lookup(leaf)] for leaf in leaves]
        """What enters each sequence of the input: rows of its table, and of any other table for the same ids."""
        self.layers: list[tuple[str, Tensor]] = []
        self.kernels: list[Kernel] = []
        self.constants = Constants()
        self.gradients = GradientCheck()
        self._rules, self._names, self._ends = rules, names, ends
        self._block_inputs = {} if block_inputs is None else block_inputs
        self._tags: TensorMap[tuple[Tag, tuple[int, ...]]] = TensorMap()
        self._summands: TensorMap[RemovableHandle] = TensorMap()
        self._through_zero: dict[tuple[Any, ...], bool] = {}
        self._repeated_kernels: Iterator[Kernel] | None = None

    def call(self, func: Function, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        args = [self._linearized(argument) for argument in args]
        kwargs = {key: self._linearized(argument) for key, argument in kwargs.items()}
        rule = self._rules.get(name)
        result = self.without_rule(func, args, kwargs) if rule is None else rule(self, func, args, kwargs)
        if name in _MOVES_IDS and isinstance(result, Tensor) and result.dtype in _ID_TYPES:
            self._follow_ids(func, args, kwargs, result)
        self.gradients.called(func, args, result)
        return result

    def clear(self) -> None:
        """Release what was followed, when the run is over."""
        self._tags.clear()

    def begin_backward(self) -> None:
        """Forget the results of another backward pass."""
        self.constants = Constants()
        for kernel in self.kernels:
            kernel.values_gradient = kernel.outputs_gradient = None

    @property
    def repeating(self) -> bool:
        """Whether a block is being run again."""
        return self._repeated_kernels is not None

    @contextmanager
    def repeat(self, kernels: Sequence[Kernel]) -> Iterator[None]:
        """A block whose attention calls were these is run again inside."""
        self._repeated_kernels = iter(kernels)
        try:
            yield
        finally:
            self._repeated_kernels = None

    def without_rule(self, func: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return func(*args, **kwargs)

    def caller(self) -> str:
        """The innermost module of the model whose code is running."""
        return next((self._names[index] for index in running_modules(self._names)), "")

    def enter(self, tensor: Tensor, ids: Ids | None = None, sequence: list[Lookup] | None = None) -> Tensor:
        """The input as a leaf of the graph; with a `sequence` it is from a further table of that."""
        leaf = tensor.detach().requires_grad_(torch.is_grad_enabled())
        self.leaves.append(leaf)
        if sequence is None:
            self.entries.append(sequence := [])
        sequence.append(Lookup(leaf, ids))
        return leaf.clone()  # BLIP adds positions to it in place

    def sequence_of(self, ids: Ids) -> list[Lookup] | None:
        """What entered by the same ids, maybe by another view of them."""
        storage = ids.origin.untyped_storage().data_ptr()
        for sequence in self.entries:
            known = sequence[0].ids
            if known is not None and known.origin.untyped_storage().data_ptr() == storage:
                return sequence
        return None

    def ids(self, tensor: Tensor) -> Ids:
        """The tensor as ids: those that it was made of, or itself."""
        tag = self._tag(tensor)
        if isinstance(tag, Ids):
            return tag
        return Ids(tensor, torch.arange(tensor.numel(), device=tensor.device).view(tensor.shape))

    def _follow_ids(self, func: Function, args: list[Any], kwargs: dict[str, Any], result: Tensor) -> None:
        """Tag ids that were moved, or of which some were replaced, with their origin."""
        candidates = (x for x in args if isinstance(x, Tensor) and x.dtype in _ID_TYPES and x.ndim > 0)
        ids = next(candidates, None)
        if ids is None or ids is result:
            return
        known = self.ids(ids)
        indices = known.indices
        if _MOVES_IDS[func.__name__]:
            indices = func(*(indices if argument is ids else argument for argument in args), **kwargs)
        if indices.shape == result.shape:
            self._set_tag(result, Ids(known.origin, indices))

    def _tag(self, tensor: Any) -> Tag | None:
        """What is known of the tensor, unless it was changed in place since."""
        entry = self._tags.get(tensor)
        return entry[0] if entry is not None and entry[1] == _versions(tensor, entry[0]) else None

    def _set_tag(self, tensor: Tensor, tag: Tag) -> Tensor:
        self._tags[tensor] = tag, _versions(tensor, tag)
        return tensor

    def root(self, tensor: Any) -> Tensor | None:
        """What the tensor is an elementwise function of, maybe itself; None of a constant."""
        tag = self._tag(tensor)
        if isinstance(tag, FunctionOf):
            return tag.root
        return tensor if isinstance(tensor, Tensor) and tensor.requires_grad else None

    def as_call(self, result: Tensor, root: Tensor, compute: Callable[[Tensor], Tensor]) -> Tensor:
        """`result`, tagged as one call on `root`."""
        return self._set_tag(result, FunctionOf(root, compute))

    def call_of(self, tensor: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]] | None:
        """The tensor that this one is one call on, and the call."""
        tag = self._tag(tensor)
        return (tag.root, tag.compute) if isinstance(tag, FunctionOf) and tag.compute is not None else None

    def as_linear(self, result: Tensor, compute: Callable[[], Tensor]) -> Tensor:
        """`result`, tagged as a linear map that can be recomputed where that is worth it."""
        return self._set_tag(result, LinearMap(compute)) if result.requires_grad and is_large(result) else result

    def recomputable(self, tensor: Tensor) -> Recomputable:
        tag = self._tag(tensor)
        return Recomputable(tensor, tag.compute if isinstance(tag, LinearMap) else None)

    def as_function(self, result: Any, *operands: Any) -> Any:
        """`result`, tagged when all operands that depend on the input are functions of one tensor of its shape."""
        roots = [root for root in map(self.root, operands) if root is not None]
        if roots and all(root is roots[0] for root in roots) and roots[0].shape == getattr(result, "shape", None):
            if result is not roots[0]:
                self._set_tag(result, FunctionOf(roots[0]))
        elif any(map(self.is_softmax, operands)):
            self.as_softmax(result)
        return result

    def overwrite(self, tensor: Tensor, result: Tensor) -> Tensor:
        """`tensor`, changed in place to `result`, whose gradient and tag it takes over."""
        tag = self._tag(result)
        tensor.copy_(result)
        if tag is not None and self._tag(result) is not None:  # unless `tensor` is what it was a function of
            self._set_tag(tensor, tag)
        return tensor

    def is_softmax(self, tensor: Any) -> bool:
        return isinstance(self._tag(tensor), Softmax)

    def as_softmax(self, result: Tensor) -> Tensor:
        return self._set_tag(result, Softmax())

    def through_zero(self, func: Function, args: list[Any], kwargs: dict[str, Any]) -> bool:
        """Whether the elementwise function of the one tensor in `args` gives 0 at 0; tried once for equal options."""
        key = (func, *("z" if isinstance(argument, Tensor) else argument for argument in args), *kwargs.items())
        if key not in self._through_zero:
            zero = [argument.new_zeros(()) if isinstance(argument, Tensor) else argument for argument in args]
            self._through_zero[key] = bool(func(*zero, **kwargs) == 0)
        return self._through_zero[key]

    def with_constant(self, result: Tensor, constant: Tensor | float) -> Tensor:
        """`result`, in which `constant` is a summand that belongs to no position."""
        if self.path.conserves and result.requires_grad:
            self._summands[result] = on_gradient(result, lambda gradient: self.constants.add(constant, gradient))
        return result

    def count_as_input(self, entry: Tensor) -> None:
        """What was added to make up `entry`, such as the position of a patch, is part of it."""
        handle = self._summands.get(entry)
        if handle is not None:
            handle.remove()

    def kernel(self, values: Tensor, outputs: Tensor) -> Tensor:
        """Keep both ends of an attention call, and what entered its block."""
        running = running_modules(self._names) if self._block_inputs and not self.repeating else iter(())
        block = next((index for index in running if index in self._block_inputs), None)
        if block is not None and not any(states is self._block_inputs[block] for _, states in self.layers):
            self.layers.append((self._names[block], self._block_inputs[block]))
        if self._ends is not None:
            at = (..., self._ends, slice(None))
            if self._repeated_kernels is not None:
                kernel = next(self._repeated_kernels)
            else:
                kernel = Kernel(self.caller(), values.detach()[at].clone(), outputs.detach()[at].clone())
                self.kernels.append(kernel)
            for name, tensor in (("values_gradient", values), ("outputs_gradient", outputs)):
                if tensor.requires_grad:
                    on_gradient(tensor, lambda grad, name=name: setattr(kernel, name, grad[at].clone()))  # type: ignore[misc]
        return outputs

    def _linearized(self, argument: Any) -> Any:
        """An argument as the linearized model takes it: parameters as constants."""
        if isinstance(argument, Tensor):
            if not argument.requires_grad or any(argument is leaf for leaf in self.leaves):
                return argument
            if argument.is_leaf:
                return argument.detach()
            return self._own_function(argument) if self.path.linearized else argument
        if type(argument) in (list, tuple):
            return type(argument)(self._linearized(element) for element in argument)
        return argument

    def _own_function(self, tensor: Tensor) -> Tensor:
        """The result of an autograd function of the model, whose gradient must be linearized, too."""
        function = getattr(tensor.grad_fn, "_forward_cls", None)
        if function is None or issubclass(function, LinearizedFunction):
            return tensor
        tag = self._tag(tensor)
        if isinstance(tag, Softmax) and self.path.scores == 0:
            return self.as_softmax(tensor.detach())
        if isinstance(tag, FunctionOf) and tag.root.shape == tensor.shape:
            return secant(tag.root, tensor.detach().clone)
        raise CaptureError(
            f"{self.caller() or 'the model'} computes with an autograd function of its own, {function.__name__}, which "
            f"{self.path.name} cannot follow; use methods=['integrated_gradients'] or methods=['blankout']"
        )


_ID_TYPES = (torch.int64, torch.int32)
_MOVES_IDS = {
    **dict.fromkeys(("view", "reshape", "flatten", "squeeze", "unsqueeze", "transpose", "permute", "t"), True),
    **dict.fromkeys(("expand", "narrow", "__getitem__"), True),
    **dict.fromkeys(("contiguous", "clone", "to", "long", "int", "masked_fill", "where"), False),
}
"""What may happen to ids before they are looked up, and whether it moves them."""
