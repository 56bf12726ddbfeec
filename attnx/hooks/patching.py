"""Where a way back through a run ends: at the model's input, and at nothing else.

While the mode looks on, the rows that are taken of the model's embedding (or pixels, which have a gradient already) are
the one leaf of the autograd graph; of an encoder–decoder, those of the source and of the output. Parameters enter each
call as constants, so that what their gradients would need is not kept, and no flag of them is touched; where they were
constants before, there is a way back all the same. `GradientCheck` finds operations at which it breaks off.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._C import (
    _get_function_stack_at,
    _len_torch_function_stack,
    _pop_torch_function_stack,
    _push_on_torch_function_stack,
)
from torch.autograd.graph import Node
from torch.overrides import TorchFunctionMode

from attnx._signals import Uninterruptible, in_every_child

Setting: TypeAlias = tuple[object, str, Any]
"""An object, the name of its attribute, and the value that the attribute is to have for a while."""


_INHERITED = object()
"""Stands for the value of an attribute that an object has from its class."""


@dataclass
class _Loan:
    owner: object
    original: Any
    """`_INHERITED` where the owner has no such attribute of its own."""
    borrowers: dict[object, int]
    """Each borrower, and the thread that it is in."""


_NOTHING = object()


class _State:
    """What the modules of a model hold beside their parameters, and who runs the model meanwhile.

    RecurrentGemma keeps its state in its modules, others a cache of positions, or modules that they make for a text.
    """

    def __init__(self, model: nn.Module) -> None:
        self.borrowers: dict[object, int] = {}
        # What is borrowed is given back by its loan.
        self._borrowed = {name for _, name in _loans}
        self._held = [
            (held, dict(held))
            for module in model.modules()
            for held in (vars(module), module._buffers, module._modules)
        ]

    def restore(self) -> None:
        borrowed = self._borrowed | {name for _, name in _loans}
        for held, original in self._held:
            now = dict(held)  # which a forward of another thread may change meanwhile
            changed = [name for name, value in now.items() if original.get(name, _NOTHING) is not value]
            for name in (*changed, *(original.keys() - now.keys())):
                value = original.get(name, _NOTHING)
                if name in borrowed or _is_function(value) or _is_function(now.get(name)):
                    continue
                if value is _NOTHING:
                    held.pop(name, None)
                else:
                    held[name] = value


def _is_function(value: object) -> bool:
    """A `forward` that was replaced, and the like: no state."""
    return callable(value) and not isinstance(value, nn.Module)


_Key: TypeAlias = tuple[int, str]

_states: dict[int, _State] = {}

_loans: dict[_Key, _Loan] = {}
_lock = Lock()


class TemporaryPatch(Uninterruptible[None]):
    """Hold each attribute at its value inside the block; afterwards, also after an error, it is what it was.

    So is what a run of `model` changes in its modules: states, caches.
    With `gradients` they are on or off meanwhile, and out of inference mode if on; a `mode` looks on at torch's
    functions. Whatever ran inside, these switches are afterwards what they were.
    """

    def __init__(
        self,
        settings: Iterable[Setting],
        *,
        model: nn.Module | None = None,
        gradients: bool | None = None,
        mode: TorchFunctionMode | None = None,
    ) -> None:
        self._run = model
        self._settings = tuple(settings)
        self._gradients = gradients
        self._mode = mode
        self._switches: Switches | None = None
        self._left: torch.inference_mode | None = None
        self._taken: list[_Key] = []

    def _begin(self) -> None:
        self._switches = Switches.now()
        with _lock:
            for owner, name, value in self._settings:
                key = (id(owner), name)
                self._taken.append(key)
                loan = _loans.setdefault(key, _Loan(owner, _original(owner, name), {}))
                loan.borrowers[self] = threading.get_ident()
                setattr(owner, name, value)
            if self._run is not None:
                if id(self._run) not in _states:
                    _states[id(self._run)] = _State(self._run)
                _states[id(self._run)].borrowers[self] = threading.get_ident()
        if self._gradients:
            # Inference mode, unlike no_grad, cannot be overruled from within: it has to be left.
            self._left = torch.inference_mode(False)
            self._left.__enter__()
        if self._gradients is not None:
            torch.set_grad_enabled(self._gradients)
        if self._mode is not None:
            _push_on_torch_function_stack(self._mode)

    def _end(self) -> None:
        left, self._left = self._left, None
        if left is not None:
            left.__exit__(None, None, None)
        if self._switches is not None:
            self._switches.restore()
        with _lock:
            while self._taken:
                loan = _loans.get(self._taken[-1])
                if loan is not None:
                    loan.borrowers.pop(self, None)
                    _give_back_unless_borrowed(self._taken[-1], loan)
                self._taken.pop()
            state = _states.get(id(self._run))
            if state is not None:
                state.borrowers.pop(self, None)
                _restore_unless_run(id(self._run), state)


def grad_mode(*, gradients: bool) -> TemporaryPatch:
    """Gradients are on inside the block, and inference mode is left, or they are off; afterwards as they were.

    Unlike torch's own switches it cannot be cut in two by a signal. Like them it must not be open where a generator
    yields: one that is left half-way would keep it open.
    """
    return TemporaryPatch((), gradients=gradients)


def looking_on(mode: TorchFunctionMode) -> TemporaryPatch:
    """The mode looks on at torch's functions inside the block, and no longer, whatever signal comes."""
    return TemporaryPatch((), mode=mode)


def is_observed() -> bool:
    """Whether a mode of attnx observes torch's functions in this thread."""
    return any(map(_is_of_attnx, Switches.now().modes))


class Unobserved(TemporaryPatch):
    """No mode of attnx observes torch's functions inside the block; those of the caller do."""

    def __init__(self) -> None:
        super().__init__(())

    def _begin(self) -> None:
        super()._begin()
        assert self._switches is not None
        _set_modes(mode for mode in self._switches.modes if not _is_of_attnx(mode))


def parameters_of(module: nn.Module) -> list[Tensor]:
    """The module's own parameters as constants; those that accelerate offloads are loaded as for a call."""
    parameters = [parameter.detach() for parameter in module.parameters(recurse=False)]
    hook: Any = vars(module).get("_hf_hook")
    if hook is None or not any(parameter.is_meta for parameter in parameters):
        return parameters
    hook.pre_forward(module)
    try:
        return [parameter.detach() for parameter in module.parameters(recurse=False)]
    finally:
        hook.post_forward(module, None)


def _is_of_attnx(mode: object) -> bool:
    return type(mode).__module__.partition(".")[0] == __name__.partition(".")[0]


def _set_modes(modes: Iterable[Any]) -> None:
    while _len_torch_function_stack():
        _pop_torch_function_stack()
    for mode in modes:
        _push_on_torch_function_stack(mode)


class ModuleObserver(Uninterruptible[None]):
    """Call `before(module, args, kwargs)` and `after(module, args, kwargs, output)` at each call of the modules inside
    the block, in this thread. What `before` returns, unless None, are the args and kwargs that the module is called
    with; what `after` returns, unless None, stands in for the output.

    These are no hooks of torch. It reads their tables one after the other, so that to add or remove a hook breaks the
    calls of other threads. Instead a method of the module is replaced, which torch looks up once in a call.
    """

    def __init__(
        self, modules: Iterable[nn.Module], before: Callable[..., Any], after: Callable[..., Any] = lambda *_: None
    ) -> None:
        self.before, self.after = before, after
        methods = {module: _observable(module) for module in modules}
        self.methods = {id(module): name for module, name in methods.items()}
        """The name of the method of each module, by the module's id."""
        self._lent = TemporaryPatch((module, name, _ObservedMethod(module, name)) for module, name in methods.items())

    def _begin(self) -> None:
        _here.observers = (*_here.observers, self)
        self._lent._begin()

    def _end(self) -> None:
        self._lent._end()
        _here.observers = tuple(observer for observer in _here.observers if observer is not self)


class _Here(threading.local):
    observers: tuple[ModuleObserver, ...] = ()
    """The open blocks of this thread that observe calls, the outermost first."""


_here = _Here()


def _observable(module: nn.Module) -> str:
    """The method whose calls are observed: the whole call, or what the caller's own hooks pass changed arguments to."""
    return "forward" if module._forward_pre_hooks else "_call_impl"


class _ObservedMethod:
    """Calls a module's method, with the observers of this thread around it."""

    def __init__(self, module: nn.Module, name: str) -> None:
        method: Callable[..., Any] = getattr(module, name)
        self._method: Callable[..., Any] = method._method if isinstance(method, _ObservedMethod) else method
        self._module, self._name = module, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        module = self._module
        observers = [each for each in _here.observers if each.methods.get(id(module)) == self._name]
        for observer in observers:
            changed = observer.before(module, args, kwargs)
            if changed is not None:
                args, kwargs = changed
        output = self._method(*args, **kwargs)
        for observer in observers:
            changed = observer.after(module, args, kwargs, output)
            if changed is not None:
                output = changed
        return output

    def __reduce__(self) -> tuple[Any, ...]:
        """In a copy of the model, which another thread may make meanwhile, it is the copy's own method."""
        return getattr, (self._module, self._name)


def _give_back_unless_borrowed(key: _Key, loan: _Loan) -> None:
    if not loan.borrowers:
        if loan.original is _INHERITED:
            vars(loan.owner).pop(key[1], None)
        else:
            setattr(loan.owner, key[1], loan.original)
        _loans.pop(key, None)


def unborrowed(owner: object, name: str) -> Any:
    """The value of an attribute as it is when nobody has borrowed it."""
    loan = _loans.get((id(owner), name))
    return getattr(owner, name) if loan is None or loan.original is _INHERITED else loan.original


def _original(owner: object, name: str) -> Any:
    """What to put back."""
    of_class = getattr(type(owner), name, None)
    inherited = of_class is not None and not hasattr(of_class, "__set__") and name not in vars(owner)
    return _INHERITED if inherited else getattr(owner, name)


def _restore_unless_run(key: int, state: _State) -> None:
    if not state.borrowers:
        state.restore()
        _states.pop(key, None)


_DEVICES = ("cpu", "cuda", "mps", "xpu")


@dataclass(frozen=True)
class Switches:
    """What torch keeps for each thread, and what code that is interrupted may leave switched over."""

    gradients: bool
    modes: tuple[Any, ...]
    """Those that look on at torch's functions. While one is called torch takes it off the stack."""
    autocast: tuple[bool, ...]
    autocast_depth: int

    @classmethod
    def now(cls) -> Switches:
        modes = tuple(_get_function_stack_at(index) for index in range(_len_torch_function_stack()))
        autocast = tuple(torch.is_autocast_enabled(device) for device in _DEVICES)
        return cls(torch.is_grad_enabled(), modes, autocast, _autocast_depth())

    def restore(self) -> None:
        _set_modes(self.modes)
        torch.set_grad_enabled(self.gradients)
        for device, enabled in zip(_DEVICES, self.autocast, strict=True):
            torch.set_autocast_enabled(device, enabled)
        for _ in range(_autocast_depth() - self.autocast_depth):
            # Casts of weights are kept until the outermost autocast ends, and would outlive a change of the weights.
            if torch.autocast_decrement_nesting() == 0:
                torch.clear_autocast_cache()


def _autocast_depth() -> int:
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


def _after_fork() -> None:
    """In a child process there is only the thread that forked: what others held is free, what they borrowed is back."""
    global _lock
    _lock = Lock()
    mine = threading.get_ident()
    for key, loan in list(_loans.items()):
        loan.borrowers = {one: thread for one, thread in loan.borrowers.items() if thread == mine}
        _give_back_unless_borrowed(key, loan)
    for model, state in list(_states.items()):
        state.borrowers = {one: thread for one, thread in state.borrowers.items() if thread == mine}
        _restore_unless_run(model, state)


in_every_child(_after_fork)


Entry: TypeAlias = nn.Module | Tensor | tuple[nn.Module | Tensor, ...]
"""The module that embeds the input, or the input itself; several of an encoder–decoder, the source's first."""


class EmbeddingOverride(TorchFunctionMode):
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
        self._leaves = [entry for entry in entries if isinstance(entry, Tensor)]
        self._embeddings = [entry for entry in entries if isinstance(entry, nn.Module)]

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        taken = [self._taken(argument) for argument in args]
        named = {name: self._taken(keyword) for name, keyword in (kwargs or {}).items()}
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

    def _taken(self, tensor: Any) -> Any:
        if isinstance(tensor, Tensor):
            leaf = any(tensor is each for each in self._leaves)
            return tensor.detach() if tensor.requires_grad and tensor.is_leaf and not leaf else tensor
        return type(tensor)(map(self._taken, tensor)) if type(tensor) in (list, tuple) else tensor


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
        if any(isinstance(argument, Tensor) and argument.requires_grad and not argument.is_leaf for argument in args):
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


def missing_gradient_reason(model: nn.Module, operation: str) -> str:
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
