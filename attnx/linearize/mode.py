"""A frozen model, by what its operations do: an observer that scales gradients on their way back.

Every call that a model makes to torch passes through `__torch_function__` of the thread's active mode. What comes out
of a call is what the model would have got; only its gradient differs:

| operation | gradient |
|---|---|
| norm | mean as it is, scale constant |
| elementwise function with f(0) = 0 | the line through 0: z · [f(z) / z] |
| other elementwise function (sigmoid, exp), denominator | a constant |
| product of two tensors that hang on the input | half to each factor |
| attention | so much to the values, so much to the scores, as the path says |
| all else | as it is |

However an activation is written, it is one function of one tensor: what is computed from a tensor elementwise is
marked with it, and a product of two such results is a function of it, too. Parameters are constants: each is replaced
by itself without its gradient where it enters a call. So nothing of the model is changed. The rules themselves are in
`rules` and `attention` of this package.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle

from attnx.errors import CaptureError
from attnx.hooks import GradientCheck
from attnx.linearize.autograd import Again, Straight, is_large, on_line, watched


@dataclass(frozen=True, eq=False)
class FunctionOf:
    """The tensor is an elementwise function of `root`; where it is one call, `compute` gives its value anew."""

    root: Tensor
    compute: Callable[[Tensor], Tensor] | None = None


@dataclass(frozen=True)
class Softmax:
    """The tensor is the result of a softmax over its last axis: attention, if it goes on to mix values."""


@dataclass(frozen=True, eq=False)
class Linear:
    """The tensor is a linear map, which `compute` makes anew."""

    compute: Callable[[], Tensor]


@dataclass(frozen=True, eq=False)
class Ids:
    """The tensor has the ids of `origin` that stand at these places, counted through it; some may be others since."""

    origin: Tensor
    places: Tensor


Mark: TypeAlias = FunctionOf | Softmax | Linear | Ids
Versions: TypeAlias = tuple[int, ...]


class Marks:
    """A mark for some tensors, for as long as they live and hold the same numbers."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Tensor], Mark, Versions]] = {}

    def put(self, tensor: Tensor, mark: Mark) -> None:
        key = id(tensor)
        self._known[key] = (weakref.ref(tensor, lambda _: self._known.pop(key, None)), mark, _versions(tensor, mark))

    def of(self, tensor: Any) -> Mark | None:
        reference, mark, versions = self._known.get(id(tensor), (None, None, ()))
        marked = None if reference is None else reference()
        if mark is None or marked is None or marked is not tensor:
            return None
        return mark if versions == _versions(marked, mark) else None

    def clear(self) -> None:
        self._known.clear()


def _versions(tensor: Tensor, mark: Mark) -> Versions:
    """How often what the mark is about was changed in place; attention that was is attention still, and ids are ids."""
    if isinstance(mark, (Softmax, Ids)):
        return ()
    about = (tensor, mark.root) if isinstance(mark, FunctionOf) else (tensor,)
    return tuple(one._version for one in about)


@dataclass(frozen=True)
class Path:
    """What carries the answer through attention: the share of its gradient that values and scores get."""

    name: str
    values: float
    scores: float
    """For queries and keys together."""
    frozen: bool = True
    """Whether norms, activations and products are frozen; if not, gradients are the model's own."""

    @property
    def queries(self) -> float:
        """What queries, and keys, get: of a frozen product each factor has half."""
        return self.scores / 2 if self.frozen else self.scores

    @property
    def conserves(self) -> bool:
        """Whether positions and biases add up to the score: a softmax that responds has a part that belongs to none."""
        return self.frozen and self.scores == 0


LRP = Path("lrp", values=1.0, scores=0.0)
ATTN_LRP = Path("attn_lrp", values=0.5, scores=0.5)


Function: TypeAlias = Callable[..., Any]
Rule: TypeAlias = Callable[["LinearizeMode", Function, list[Any], dict[str, Any]], Any]
"""What is done instead of a call: (mode, function, arguments, keyword arguments) → its result."""


@dataclass(eq=False)
class Kernel:
    """One attention call: the values that go in and the outputs that come out, … × position × width.

    All are kept at the positions that were asked for. Gradients are there after the way back, None where none came.
    """

    module: str
    values: Tensor
    outputs: Tensor
    values_gradient: Tensor | None = None
    outputs_gradient: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Lookup:
    """Rows that were taken of one table by the ids of an input, a leaf of the graph; or an input that is no ids."""

    rows: Tensor
    ids: Ids | None = None

    def laid(self, numbers: Tensor, *, add: bool = False) -> Tensor:
        """Numbers of each row where the input has its id; with `add` summed, where an id was looked up twice."""
        if self.ids is None or (self.ids.origin.ndim != self.ids.places.ndim and self._in_order(self.ids)):
            return numbers
        whole = numbers.new_zeros(self.ids.origin.numel(), numbers.shape[-1])
        places = self.ids.places.flatten().to(numbers.device)
        whole.index_put_((places,), numbers.reshape(-1, numbers.shape[-1]), accumulate=add)
        return whole.reshape(*self.ids.origin.shape, -1)

    def turned(self, states: Tensor) -> bool:
        """Whether states are position × batch × width, because ids were looked up so, as by XLNet."""
        if self.ids is None or self.ids.origin.ndim != 2 or states.shape[:2] != self.ids.origin.shape[::-1]:
            return False
        return self._in_order(replace(self.ids, places=self.ids.places.t()))

    @staticmethod
    def _in_order(ids: Ids) -> bool:
        return torch.equal(ids.places.flatten(), torch.arange(ids.origin.numel(), device=ids.places.device))


@dataclass
class Constants:
    """What biases and other constants add to the score: each times its own gradient, summed as gradients pass by."""

    total: float = 0.0
    size: float = 0.0
    """The sum without signs, beside which rounding is seen."""

    def add(self, constant: Tensor | float, gradient: Tensor) -> None:
        if isinstance(constant, Tensor):
            shape = [1] * (gradient.ndim - constant.ndim) + list(constant.shape)
            part = float((gradient.sum_to_size(shape) * constant).sum(dtype=torch.float64))
        else:
            part = constant * float(gradient.sum(dtype=torch.float64))
        self.total += part
        self.size += abs(part)


class LinearizeMode(TorchFunctionMode):
    """While it is active in this thread, gradients of what the model computes are those of the frozen model."""

    def __init__(
        self,
        path: Path,
        rules: Mapping[str, Rule],
        *,
        names: Mapping[int, str],
        embeddings: Sequence[nn.Module] = (),
        leaves: Sequence[Tensor] = (),
        entered: Mapping[int, Tensor] | None = None,
        ends: slice | None = None,
        often: bool = False,
    ) -> None:
        """`names` has the modules by their id, `entered` what each block was last called with.

        The input is the rows that are first taken of the table of each of the `embeddings`, or it is in `leaves`.
        Kernels are kept at the positions of `ends`. Where the way back is gone `often`, what it needs of a call is made
        once.
        """
        super().__init__()
        self.path = path
        self.often = often
        self.embeddings = list(embeddings)
        self.leaves = list(leaves)
        self.entries = [[Lookup(leaf)] for leaf in leaves]
        """What enters each stream of the input: rows of its table, and of any other that has its ids looked up."""
        self.layers: list[tuple[str, Tensor]] = []
        self.kernels: list[Kernel] = []
        self.constants = Constants()
        self.gradients = GradientCheck()
        self._rules = rules
        self._names = names
        self._entered = {} if entered is None else entered
        self._ends = ends
        self._marks = Marks()
        self._summands: dict[int, tuple[weakref.ref[Tensor], RemovableHandle]] = {}
        self._through_zero: dict[tuple[Any, ...], bool] = {}
        self._replayed: Iterator[Kernel] | None = None

    def __torch_function__(
        self, func: Function, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        taken = [self._taken(argument) for argument in args]
        named = {name: self._taken(keyword) for name, keyword in (kwargs or {}).items()}
        name = getattr(func, "__name__", "")
        rule = self._rules.get(name)
        result = self.untold(func, taken, named) if rule is None else rule(self, func, taken, named)
        if name in _MOVES_IDS and isinstance(result, Tensor) and result.dtype in _ID_TYPES:
            self._follow_ids(func, taken, named, result)
        self.gradients.called(func, taken, result)
        return result

    def forget(self) -> None:
        """Let go of what was followed, when the run is over."""
        self._marks.clear()

    def begin_way_back(self) -> None:
        """Forget what another way back has left."""
        self.constants = Constants()
        for kernel in self.kernels:
            kernel.values_gradient = kernel.outputs_gradient = None

    @property
    def replaying(self) -> bool:
        """Whether a block is being run again."""
        return self._replayed is not None

    @contextmanager
    def run_again(self, kernels: Sequence[Kernel]) -> Iterator[None]:
        """A block is run again inside, whose attention calls were these."""
        self._replayed = iter(kernels)
        try:
            yield
        finally:
            self._replayed = None

    def untold(self, func: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A call that no rule is about."""
        return func(*args, **kwargs)

    def caller(self) -> str:
        """The innermost module of the model whose code is running."""
        return next((self._names[index] for index in self._running()), "")

    def _running(self) -> Iterator[int]:
        """The ids of the modules whose code is running, the innermost first, off the call stack: no hook is needed.

        Frames beyond the model are not looked at: to look is to hold on to all that is in them.
        """
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            module = id(frame.f_locals.get("self"))
            if module in self._names:
                yield module
                if self._names[module] == "":
                    return
            frame = frame.f_back

    def enter(self, tensor: Tensor, ids: Ids | None = None, sequence: list[Lookup] | None = None) -> Tensor:
        """The input as the leaf that gradients go back to; with a `sequence` it is a further table of that."""
        leaf = tensor.detach().requires_grad_(torch.is_grad_enabled())
        self.leaves.append(leaf)
        if sequence is None:
            self.entries.append(sequence := [])
        sequence.append(Lookup(leaf, ids))
        return leaf.clone()  # to which BLIP adds places, without asking for another tensor

    def stream_of(self, ids: Ids) -> list[Lookup] | None:
        """What has entered by the same ids, maybe by another view of them."""
        storage = ids.origin.untyped_storage().data_ptr()
        tables = ((sequence, sequence[0].ids) for sequence in self.entries)
        return next(
            (lookups for lookups, own in tables if own and own.origin.untyped_storage().data_ptr() == storage), None
        )

    def ids(self, tensor: Tensor) -> Ids:
        """The tensor as ids: those that it was made of, or its own."""
        mark = self._marks.of(tensor)
        if isinstance(mark, Ids):
            return mark
        return Ids(tensor, torch.arange(tensor.numel(), device=tensor.device).view(tensor.shape))

    def _follow_ids(self, func: Function, args: list[Any], kwargs: dict[str, Any], result: Tensor) -> None:
        """Mark ids that were moved, or of which some were replaced, with those that they are of."""
        ids = next(
            (
                argument
                for argument in args
                if isinstance(argument, Tensor) and argument.dtype in _ID_TYPES and argument.ndim > 0
            ),
            None,
        )
        if ids is None or ids is result:
            return
        known = self.ids(ids)
        moves = _MOVES_IDS[func.__name__]
        places = (
            func(*(known.places if argument is ids else argument for argument in args), **kwargs)
            if moves
            else known.places
        )
        if places.shape == result.shape:
            self._marks.put(result, Ids(known.origin, places))

    def root(self, tensor: Any) -> Tensor | None:
        """What the tensor is an elementwise function of, maybe itself; None of a constant."""
        mark = self._marks.of(tensor)
        if isinstance(mark, FunctionOf):
            return mark.root
        return tensor if isinstance(tensor, Tensor) and tensor.requires_grad else None

    def called(self, result: Tensor, root: Tensor, compute: Callable[[Tensor], Tensor]) -> Tensor:
        """`result`, marked as one call on `root`."""
        self._marks.put(result, FunctionOf(root, compute))
        return result

    def call_of(self, tensor: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]] | None:
        """The tensor that this one is one call on, and the call."""
        mark = self._marks.of(tensor)
        return (mark.root, mark.compute) if isinstance(mark, FunctionOf) and mark.compute is not None else None

    def linear(self, result: Tensor, compute: Callable[[], Tensor]) -> Tensor:
        """`result`, marked as a linear map that can be made anew where that is worth it."""
        if result.requires_grad and is_large(result):
            self._marks.put(result, Linear(compute))
        return result

    def again(self, tensor: Tensor) -> Again:
        """The tensor for the way back."""
        mark = self._marks.of(tensor)
        return Again(tensor, mark.compute if isinstance(mark, Linear) else None)

    def as_function(self, result: Any, *operands: Any) -> Any:
        """`result`, marked when all operands that hang on the input are functions of one tensor of its shape."""
        roots = [root for root in map(self.root, operands) if root is not None]
        if roots and all(root is roots[0] for root in roots) and roots[0].shape == getattr(result, "shape", None):
            if result is not roots[0]:
                self._marks.put(result, FunctionOf(roots[0]))
        elif any(map(self.is_softmax, operands)):
            self.as_softmax(result)
        return result

    def overwrite(self, tensor: Tensor, result: Tensor) -> Tensor:
        """`tensor`, changed in place to `result`, whose gradient and mark it takes over."""
        mark = self._marks.of(result)
        tensor.copy_(result)
        if mark is not None and self._marks.of(result) is not None:  # unless `tensor` is what it was a function of
            self._marks.put(tensor, mark)
        return tensor

    def is_softmax(self, tensor: Any) -> bool:
        return isinstance(self._marks.of(tensor), Softmax)

    def as_softmax(self, result: Tensor) -> Tensor:
        self._marks.put(result, Softmax())
        return result

    def through_zero(self, func: Function, args: list[Any], kwargs: dict[str, Any]) -> bool:
        """Whether the elementwise function of the one tensor in `args` gives 0 at 0; tried once for like options."""
        key = (func, *("z" if isinstance(argument, Tensor) else argument for argument in args), *kwargs.items())
        if key not in self._through_zero:
            at_zero = func(
                *(argument.new_zeros(()) if isinstance(argument, Tensor) else argument for argument in args), **kwargs
            )
            self._through_zero[key] = bool(at_zero == 0)
        return self._through_zero[key]

    def with_constant(self, result: Tensor, constant: Tensor | float) -> Tensor:
        """`result`, in which `constant` is a summand that belongs to no position."""
        if self.path.conserves and result.requires_grad:
            handle = watched(result, lambda gradient: self.constants.add(constant, gradient))
            self._summands[id(result)] = weakref.ref(result), handle
        return result

    def take_whole(self, entry: Tensor) -> None:
        """Count what was added to make up `entry` as part of it, such as the place of a patch."""
        result, handle = self._summands.get(id(entry), (None, None))
        if handle is not None and result is not None and result() is entry:  # an id may be that of one long gone
            handle.remove()

    def kernel(self, values: Tensor, outputs: Tensor) -> Tensor:
        """Keep both ends of an attention call, and what entered its block."""
        noting = bool(self._entered) and not self.replaying
        block = next((index for index in self._running() if index in self._entered), None) if noting else None
        if block is not None and not any(states is self._entered[block] for _, states in self.layers):
            self.layers.append((self._names[block], self._entered[block]))
        if self._ends is not None:
            at = (..., self._ends, slice(None))
            kept = next(self._replayed) if self._replayed is not None else self._kept(values, outputs, at)
            if values.requires_grad:
                watched(values, lambda gradient: setattr(kept, "values_gradient", _at(gradient, at)))
            if outputs.requires_grad:
                watched(outputs, lambda gradient: setattr(kept, "outputs_gradient", _at(gradient, at)))
        return outputs

    def _kept(self, values: Tensor, outputs: Tensor, at: Any) -> Kernel:
        kept = Kernel(self.caller(), values.detach()[at].clone(), outputs.detach()[at].clone())
        self.kernels.append(kept)
        return kept

    def _taken(self, tensor: Any) -> Any:
        """An argument as the frozen model takes it: parameters as constants."""
        if isinstance(tensor, Tensor):
            if not tensor.requires_grad or any(tensor is leaf for leaf in self.leaves):
                return tensor
            if tensor.is_leaf:
                return tensor.detach()
            return self._own(tensor) if self.path.frozen else tensor
        if type(tensor) in (list, tuple):
            return type(tensor)(self._taken(each) for each in tensor)
        return tensor

    def _own(self, tensor: Tensor) -> Tensor:
        """What came out of an autograd function of the model's own, whose gradient must be frozen, too."""
        made_by = getattr(tensor.grad_fn, "_forward_cls", None)
        if made_by is None or issubclass(made_by, Straight):
            return tensor
        mark = self._marks.of(tensor)
        if isinstance(mark, Softmax) and self.path.scores == 0:
            return self.as_softmax(tensor.detach())
        if isinstance(mark, FunctionOf) and mark.root.shape == tensor.shape:
            return on_line(mark.root, tensor.detach().clone)
        raise CaptureError(
            f"{self.caller() or 'the model'} computes with an autograd function of its own, {made_by.__name__}, which "
            f"{self.path.name} cannot follow; use references=('integrated_gradients',) or ('blankout',)"
        )


_ID_TYPES = (torch.int64, torch.int32)
_MOVES_IDS = {
    **dict.fromkeys(("view", "reshape", "flatten", "squeeze", "unsqueeze", "transpose", "permute", "t"), True),
    **dict.fromkeys(("expand", "narrow", "__getitem__"), True),
    **dict.fromkeys(("contiguous", "clone", "to", "long", "int", "masked_fill", "where"), False),
}
"""What may happen to ids before they are looked up, and whether they stand elsewhere then."""


def _at(gradient: Tensor | None, places: Any) -> Tensor | None:
    """Of a gradient that came; quantised maps hand none on."""
    return None if gradient is None else gradient[places].clone()
