"""The context manager that owns a captured run: which backend looks on, what is borrowed from the model."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import nullcontext
from functools import partial
from typing import Any, Literal, TypeAlias

from torch import nn
from torch.overrides import TorchFunctionMode

from attnx._signals import Uninterruptible
from attnx.errors import ChoiceError
from attnx.hooks.attention_interface import Listening, Onlooker, implementations, needs_interface
from attnx.hooks.blocks import Blocks
from attnx.hooks.observer import Observer
from attnx.hooks.patching import Entering, Entry, Setting, TemporaryPatch, Unobserved, is_observed, looking_on
from attnx.hooks.recompute import Remaking
from attnx.hooks.record import Extra, Merging, Recorder

Backend: TypeAlias = Literal["auto", "observer", "interface"]


def watch(
    model: nn.Module,
    *,
    batch: int = 1,
    head: Merging = None,
    extras: tuple[Extra, ...] = (),
    gradients: bool = False,
    held: bool = True,
    backend: Backend = "auto",
    entry: Entry | None = None,
    anew: bool = False,
) -> Uninterruptible[Recorder]:
    """Record the attention of every call of `model` inside the block, in this thread.

        with watch(model) as recorder:
            model(**inputs)
        recorder.records[0].weights        # batch × head × query × key of layer 1

    The model is in evaluation mode meanwhile, and without gradients unless `gradients` is true. Afterwards it is
    exactly what it was. `batch` is the number of inputs that a call gets: some models fold it into their heads. Without
    `held` a record has queries and keys instead of weights, where the model's attention can be computed from them.
    With `entry`, the module that embeds the input or the input itself (several of an encoder–decoder, the source's
    first), what the model gives can be followed back to it:
    kernels stay as they are, and a record has their `outputs` as they stand in the autograd graph.

    With `anew` queries and keys that would take too much are let go of, and made again by the model where they are read
    (see `remaking`): for who reads them at once.
    """
    model = unwrap_model(model)
    recorder = Recorder(
        model, batch=batch, head=head, extras=extras, gradients=gradients, held=held, way_back=entry is not None
    )
    by_interface = choose_backend(model, backend) == "interface"
    anew = anew and not (held or extras or gradients or by_interface or entry is not None)
    return _Watch(model, recorder, by_interface=by_interface, entry=entry, anew=anew)


def eval_mode(model: nn.Module, *, gradients: bool = False) -> Uninterruptible[None]:
    """Evaluation mode and plain, uncompiled calls inside the block; every module as it was afterwards."""
    return _Undisturbed(model, gradients=gradients)


class _Undisturbed(TemporaryPatch):
    def __init__(
        self,
        model: nn.Module,
        *,
        gradients: bool,
        mode: TorchFunctionMode | None = None,
        further: Iterable[Setting] = (),
    ) -> None:
        # A module that is in evaluation mode now may only be so because another thread borrowed it: borrow it too.
        settings: list[Setting] = [(module, "training", False) for module in model.modules()]
        compiled = [module for module in model.modules() if vars(module).get("_compiled_call_impl") is not None]
        settings += [(module, "_compiled_call_impl", partial(_call_plainly, module)) for module in compiled]
        settings += [(module, "_hf_hook", _unobserved(module._hf_hook)) for module in model.modules() if _loads(module)]
        super().__init__([*settings, *_eager(), *further], model=model, gradients=gradients, mode=mode)
        self._model = model
        self._known = {id(module) for module in model.modules()}
        self._training = model.training

    def _end(self) -> None:
        super()._end()
        # BigBird makes itself new attention modules when a text is short; they are born in the mode of the moment.
        for module in self._model.modules():
            if id(module) not in self._known:
                module.training = self._training


def _call_plainly(module: nn.Module, /, *args: Any, **kwargs: Any) -> Any:
    return module._call_impl(*args, **kwargs)  # type: ignore[no-untyped-call]


def _eager() -> list[Setting]:
    """What `torch.compiler.set_stance("force_eager")` sets: compiled parts of any model run as they are written.

    A mode cannot observe compiled code. That stance is one for all threads, and does not count who set it.
    """
    compiler = sys.modules.get("torch._dynamo.eval_frame")  # not loaded where nothing was compiled
    stance = getattr(compiler, "DynamoStance", None)
    return [] if stance is None else [(compiler, "_stance", stance("force_eager"))]


class _UnobservedHook:
    """A hook of accelerate, which loads a module's weights when it is called and lets go of them afterwards.

    What it computes is no part of the model: a mode that answered or changed its calls would change the weights.
    """

    def __init__(self, hook: Any) -> None:
        self.hook = hook

    def __getattr__(self, name: str) -> Any:
        return getattr(self.hook, name)

    def pre_forward(self, module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        with Unobserved() if is_observed() else nullcontext():
            return self.hook.pre_forward(module, *args, **kwargs)

    def post_forward(self, module: nn.Module, output: Any) -> Any:
        with Unobserved() if is_observed() else nullcontext():
            return self.hook.post_forward(module, output)


def _unobserved(hook: Any) -> _UnobservedHook:
    return hook if isinstance(hook, _UnobservedHook) else _UnobservedHook(hook)


def _loads(module: nn.Module) -> bool:
    """Whether accelerate changes the module's weights at each call, and not only moves what goes through."""
    hook = vars(module).get("_hf_hook")
    parts = getattr(hook, "hooks", (hook,))
    return any(part is not None and getattr(part, "offload", True) for part in parts)


class _Watch(Uninterruptible[Recorder]):
    """One exit for all that a captured run holds: the backend, torch's switches, the model's settings."""

    def __init__(
        self, model: nn.Module, recorder: Recorder, *, by_interface: bool, entry: Entry | None, anew: bool
    ) -> None:
        self._recorder = recorder
        entries = entry if isinstance(entry, tuple) else () if entry is None else (entry,)
        self._entering = looking_on(Entering(*entries)) if entries else None
        self._listening = Listening(recorder) if by_interface else None
        self._mode = Onlooker(recorder) if by_interface else Observer(recorder)
        self._blocks = Blocks(model, recorder) if "blocks" in recorder.extras else None
        self._remaking = Remaking(model, recorder, partial(eval_mode, model)) if anew else None
        self._undisturbed = _Undisturbed(
            model,
            gradients=recorder.gradients or recorder.way_back,
            mode=self._mode,
            further=implementations(model) if by_interface else (),
        )

    def _begin(self) -> Recorder:
        self._undisturbed._begin()
        if self._listening is not None:
            self._listening.begin()
        if self._blocks is not None:
            self._blocks._begin()
        if self._remaking is not None:
            self._remaking._begin()
        if self._entering is not None:
            self._entering._begin()
        return self._recorder

    def _end(self) -> None:
        if self._entering is not None:
            self._entering._end()
        if self._remaking is not None:
            self._remaking._end()
        if self._blocks is not None:
            self._blocks._end()
        if self._listening is not None:
            self._listening.end()
        self._undisturbed._end()
        self._mode.forget()


def choose_backend(model: nn.Module, backend: Backend) -> Backend:
    if backend not in ("auto", "observer", "interface"):
        raise ChoiceError(f"backend {backend!r} is not known; there are: auto, observer, interface")
    if backend == "auto":
        return "interface" if needs_interface(model) else "observer"
    return backend


def unwrap_model(model: nn.Module) -> nn.Module:
    """The model itself under `torch.compile`, `DataParallel` and `DistributedDataParallel`."""
    while True:
        inner = getattr(model, "_orig_mod", None)
        if inner is None and type(model).__name__ in ("DataParallel", "DistributedDataParallel"):
            inner = getattr(model, "module", None)
        if not isinstance(inner, nn.Module):
            return model
        model = inner
