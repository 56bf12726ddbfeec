"""Temporary changes to a model and to torch's switches; afterwards, also after errors and Ctrl-C, nothing is changed.

Several threads may patch one attribute: its original value returns when the last of them is done. No hooks of torch are
used, because torch reads their tables one after the other: adding one breaks the calls of other threads.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch._C import (
    _get_function_stack_at,
    _len_torch_function_stack,
    _pop_torch_function_stack,
    _push_on_torch_function_stack,
)
from torch.overrides import TorchFunctionMode

from attnx._signals import Uninterruptible, in_every_child

Setting: TypeAlias = tuple[object, str, Any]
"""An object, the name of its attribute, and the attribute's temporary value."""
_Key: TypeAlias = tuple[int, str]

_INHERITED, _MISSING = object(), object()


@dataclass
class _Patch:
    owner: object
    original: Any
    """`_INHERITED` where the owner has the attribute only from its class."""
    holders: dict[object, int]
    """Each `TemporaryPatch` that holds it, and its thread."""

    def restore_if_free(self, key: _Key) -> None:
        if not self.holders:
            if self.original is _INHERITED:
                vars(self.owner).pop(key[1], None)
            else:
                setattr(self.owner, key[1], self.original)
            _patches.pop(key, None)


class _ModuleState:
    """What the modules of a model hold beside parameters, while it is run.

    RecurrentGemma keeps its state in its modules, others a cache of positions, or modules made for one text.
    """

    def __init__(self, model: nn.Module) -> None:
        self.holders: dict[object, int] = {}
        self._patched = {name for _, name in _patches}  # these are restored by their patch
        self._originals = [
            (attributes, dict(attributes))
            for module in model.modules()
            for attributes in (vars(module), module._buffers, module._modules)
        ]

    def restore_if_free(self, key: int) -> None:
        if self.holders:
            return
        patched = self._patched | {name for _, name in _patches}
        for attributes, original in self._originals:
            current = dict(attributes)  # a forward in another thread may change it meanwhile
            for name in original.keys() | current.keys():
                value, now = original.get(name, _MISSING), current.get(name, _MISSING)
                if value is now or name in patched or _is_function(value) or _is_function(now):
                    continue
                if value is _MISSING:
                    attributes.pop(name, None)
                else:
                    attributes[name] = value
        _states.pop(key, None)


def _is_function(value: object) -> bool:
    """A replaced `forward` and the like are not state."""
    return callable(value) and not isinstance(value, nn.Module)


_patches: dict[_Key, _Patch] = {}
_states: dict[int, _ModuleState] = {}
_lock = Lock()


class TemporaryPatch(Uninterruptible[None]):
    """Give attributes other values inside the block; what a run of `model` changes in its modules is undone, too.

    `gradients` switches them on (leaving inference mode) or off, `mode` is active for torch's functions. Whatever ran
    inside, torch's switches are restored.
    """

    def __init__(
        self,
        settings: Iterable[Setting] = (),
        *,
        model: nn.Module | None = None,
        gradients: bool | None = None,
        mode: TorchFunctionMode | None = None,
    ) -> None:
        self._model, self._settings, self._gradients, self._mode = model, tuple(settings), gradients, mode
        self._switches: Switches | None = None
        self._inference_mode: torch.inference_mode | None = None
        self._held: list[_Key] = []

    def _begin(self) -> None:
        self._switches = Switches.now()
        with _lock:
            for owner, name, value in self._settings:
                key = (id(owner), name)
                self._held.append(key)
                patch = _patches.setdefault(key, _Patch(owner, _original(owner, name), {}))
                patch.holders[self] = threading.get_ident()
                setattr(owner, name, value)
            if self._model is not None:
                if id(self._model) not in _states:
                    _states[id(self._model)] = _ModuleState(self._model)
                _states[id(self._model)].holders[self] = threading.get_ident()
        if self._gradients:
            # Inference mode, unlike no_grad, cannot be overruled from within: it has to be left.
            self._inference_mode = torch.inference_mode(False)
            self._inference_mode.__enter__()
        if self._gradients is not None:
            torch.set_grad_enabled(self._gradients)
        if self._mode is not None:
            _push_on_torch_function_stack(self._mode)

    def _end(self) -> None:
        inference_mode, self._inference_mode = self._inference_mode, None
        if inference_mode is not None:
            inference_mode.__exit__(None, None, None)
        if self._switches is not None:
            self._switches.restore()
        with _lock:
            while self._held:  # a key leaves the list when its patch is undone: a setter may raise Ctrl-C
                patch = _patches.get(self._held[-1])
                if patch is not None:
                    patch.holders.pop(self, None)
                    patch.restore_if_free(self._held[-1])
                self._held.pop()
            state = _states.get(id(self._model))
            if state is not None:
                state.holders.pop(self, None)
                state.restore_if_free(id(self._model))


def _original(owner: object, name: str) -> Any:
    of_class = getattr(type(owner), name, None)
    inherited = of_class is not None and not hasattr(of_class, "__set__") and name not in vars(owner)
    return _INHERITED if inherited else getattr(owner, name)


def unpatched(owner: object, name: str) -> Any:
    """The attribute's value as it is when nobody has patched it."""
    patch = _patches.get((id(owner), name))
    return getattr(owner, name) if patch is None or patch.original is _INHERITED else patch.original


def _after_fork() -> None:
    """In a child process only the thread that forked exists: free the lock and undo the patches of others."""
    global _lock
    _lock = Lock()
    held: list[tuple[Any, _Patch | _ModuleState]] = [*_patches.items(), *_states.items()]
    for key, entry in held:
        entry.holders = {holder: thread for holder, thread in entry.holders.items() if thread == threading.get_ident()}
        entry.restore_if_free(key)


in_every_child(_after_fork)


def grad_mode(*, gradients: bool) -> TemporaryPatch:
    """Gradients on (leaving inference mode) or off inside the block, which a signal cannot cut in two.

    Like torch's own switches it must not be open where a generator yields.
    """
    return TemporaryPatch(gradients=gradients)


def active_mode(mode: TorchFunctionMode) -> TemporaryPatch:
    """The mode is active for torch's functions inside the block."""
    return TemporaryPatch(mode=mode)


class Unobserved(TemporaryPatch):
    """Of the active modes only the caller's own stay active inside the block."""

    def _begin(self) -> None:
        super()._begin()
        assert self._switches is not None
        _set_modes(mode for mode in self._switches.modes if not is_of_attnx(mode))


def is_of_attnx(mode: object) -> bool:
    return type(mode).__module__.partition(".")[0] == __name__.partition(".")[0]


def _set_modes(modes: Iterable[Any]) -> None:
    while _len_torch_function_stack():
        _pop_torch_function_stack()
    for mode in modes:
        _push_on_torch_function_stack(mode)


_DEVICES = ("cpu", "cuda", "mps", "xpu")


@dataclass(frozen=True)
class Switches:
    """What torch keeps for each thread, and what interrupted code may leave switched."""

    gradients: bool
    modes: tuple[Any, ...]
    """The active modes; while one is called torch takes it off the stack."""
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
            # Casts of weights are cached until the outermost autocast ends, and would outlive a change of the weights.
            if torch.autocast_decrement_nesting() == 0:
                torch.clear_autocast_cache()


def _autocast_depth() -> int:
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


class EvalMode(TemporaryPatch):
    """Evaluation mode and plain, uncompiled calls inside the block."""

    def __init__(
        self,
        model: nn.Module,
        *,
        gradients: bool = False,
        mode: TorchFunctionMode | None = None,
        settings: Iterable[Setting] = (),
    ) -> None:
        # A module in evaluation mode may be so only because another thread has patched it: patch it, too.
        patches: list[Setting] = [*settings, *_eager()]
        for module in model.modules():
            patches.append((module, "training", False))
            if vars(module).get("_compiled_call_impl") is not None:
                patches.append((module, "_compiled_call_impl", partial(_call_plainly, module)))
            if _loads_weights(module):
                patches.append((module, "_hf_hook", _UnobservedHook(module._hf_hook)))
        super().__init__(patches, model=model, gradients=gradients, mode=mode)
        self._modules, self._training = {id(module) for module in model.modules()}, model.training

    def _end(self) -> None:
        super()._end()
        # BigBird makes new attention modules for a short text, which are born in the mode of the moment.
        for module in self._model.modules() if self._model is not None else ():
            if id(module) not in self._modules:
                module.training = self._training


def eval_mode(model: nn.Module, *, gradients: bool = False) -> Uninterruptible[None]:
    """Evaluation mode and plain, uncompiled calls inside the block; every module as it was afterwards."""
    return EvalMode(model, gradients=gradients)


def _call_plainly(module: nn.Module, /, *args: Any, **kwargs: Any) -> Any:
    return module._call_impl(*args, **kwargs)  # type: ignore[no-untyped-call]


def _eager() -> list[Setting]:
    """What `torch.compiler.set_stance("force_eager")` sets, which does not count who set it: a mode sees no compiled
    code."""
    compiler = sys.modules.get("torch._dynamo.eval_frame")  # not loaded where nothing was compiled
    stance = getattr(compiler, "DynamoStance", None)
    return [] if stance is None else [(compiler, "_stance", stance("force_eager"))]


class _UnobservedHook:
    """A hook of accelerate that loads a module's weights for a call: no part of the model, so no mode may see it."""

    def __init__(self, hook: Any) -> None:
        self.hook: Any = hook.hook if isinstance(hook, _UnobservedHook) else hook

    def __getattr__(self, name: str) -> Any:
        return getattr(self.hook, name)

    def pre_forward(self, module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        with _unobserved():
            return self.hook.pre_forward(module, *args, **kwargs)

    def post_forward(self, module: nn.Module, output: Any) -> Any:
        with _unobserved():
            return self.hook.post_forward(module, output)


def _unobserved() -> Any:
    return Unobserved() if any(map(is_of_attnx, Switches.now().modes)) else nullcontext()


def _loads_weights(module: nn.Module) -> bool:
    """Whether accelerate changes the module's weights at each call, instead of only moving its inputs."""
    hook = vars(module).get("_hf_hook")
    parts = getattr(hook, "hooks", (hook,))
    return any(part is not None and getattr(part, "offload", True) for part in parts)


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


class ModuleObserver(Uninterruptible[None]):
    """Call `before(module, args, kwargs)` and `after(module, args, kwargs, output)` at each call of the modules, in
    this thread.

    What `before` returns, unless None, replaces args and kwargs; what `after` returns, unless None, the output. The
    observed method is replaced, which torch looks up once in a call.
    """

    def __init__(
        self, modules: Iterable[nn.Module], before: Callable[..., Any], after: Callable[..., Any] = lambda *_: None
    ) -> None:
        self.before, self.after = before, after
        # The caller's own hooks may change the arguments, so that `forward` is observed behind them.
        methods = {module: "forward" if module._forward_pre_hooks else "_call_impl" for module in modules}
        self.methods = {id(module): name for module, name in methods.items()}
        self._patch = TemporaryPatch((module, name, _ObservedMethod(module, name)) for module, name in methods.items())

    def _begin(self) -> None:
        _thread.observers = (*_thread.observers, self)
        self._patch._begin()

    def _end(self) -> None:
        self._patch._end()
        _thread.observers = tuple(observer for observer in _thread.observers if observer is not self)


class _Thread(threading.local):
    observers: tuple[ModuleObserver, ...] = ()
    """Those of this thread, the outermost first."""


_thread = _Thread()


class _ObservedMethod:
    """Calls a module's method, with the observers of this thread around it."""

    def __init__(self, module: nn.Module, name: str) -> None:
        method: Callable[..., Any] = getattr(module, name)
        self._method: Callable[..., Any] = method._method if isinstance(method, _ObservedMethod) else method
        self._module, self._name = module, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        module = self._module
        observers = [observer for observer in _thread.observers if observer.methods.get(id(module)) == self._name]
        for observer in observers:
            args, kwargs = observer.before(module, args, kwargs) or (args, kwargs)
        output = self._method(*args, **kwargs)
        for observer in observers:
            replacement = observer.after(module, args, kwargs, output)
            output = output if replacement is None else replacement
        return output

    def __reduce__(self) -> tuple[Any, ...]:
        """In a copy of the model, which another thread may make meanwhile, it is the copy's own method."""
        return getattr, (self._module, self._name)


def unwrap_model(model: nn.Module) -> nn.Module:
    """The model itself under `torch.compile`, `DataParallel` and `DistributedDataParallel`."""
    while True:
        inner = getattr(model, "_orig_mod", None)
        if inner is None and type(model).__name__ in ("DataParallel", "DistributedDataParallel"):
            inner = getattr(model, "module", None)
        if not isinstance(inner, nn.Module):
            return model
        model = inner


def listed_modules(model: nn.Module) -> dict[int, nn.Module]:
    """The elements of the model's lists of modules, by their ids: its blocks."""
    lists = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
    return {id(module): module for modules in lists for module in modules}


def layer_count(model: nn.Module) -> int:
    """About how many blocks run one after the other."""
    count = getattr(getattr(model, "config", None), "num_hidden_layers", None)
    lists = [len(module) for module in model.modules() if isinstance(module, nn.ModuleList)]
    return max([count if isinstance(count, int) else 1, *lists])
