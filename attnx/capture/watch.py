"""The context manager that owns a captured run: which backend looks on, what is borrowed from the model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Literal, TypeAlias

import torch
from torch import nn

from attnx.capture.borrow import Setting, borrowed
from attnx.capture.interface import attention_interface, needs_interface
from attnx.capture.observer import Observer
from attnx.capture.record import Extra, Recorder, Reduce
from attnx.errors import ChoiceError

Backend: TypeAlias = Literal["auto", "observer", "interface"]


@contextmanager
def watch(
    model: nn.Module,
    *,
    batch: int = 1,
    reduce: Reduce = None,
    extras: tuple[Extra, ...] = (),
    graph: bool = False,
    backend: Backend = "auto",
    long: bool = False,
) -> Iterator[Recorder]:
    """Record the attention of every call of `model` inside the block, in this thread.

        with watch(model) as recorder:
            model(**inputs)
        recorder.records[0].weights        # batch × head × query × key of layer 1

    The model is in evaluation mode meanwhile, and without gradients unless `graph` is true. Afterwards it is exactly
    what it was. `batch` is the number of inputs that a call gets: some models fold it into their heads. With `long`
    a record holds queries and keys instead of weights, where the model's attention can be computed from them.
    """
    model = unwrapped(model)
    recorder = Recorder(model, batch=batch, reduce=reduce, extras=extras, graph=graph, long=long)
    with ExitStack() as stack:
        stack.enter_context(undisturbed(model, graph=graph))
        if choose_backend(model, backend) == "observer":
            stack.enter_context(Observer(recorder))
        else:
            stack.enter_context(attention_interface(model, recorder))
        yield recorder


@contextmanager
def undisturbed(model: nn.Module, *, graph: bool = False) -> Iterator[None]:
    """Evaluation mode and plain, uncompiled calls inside the block; every module as it was afterwards."""
    # A module that is in evaluation mode now may only be so because another thread borrowed it: borrow it too.
    settings: list[Setting] = [(module, "training", False) for module in model.modules()]
    compiled = [module for module in model.modules() if "_compiled_call_impl" in vars(module)]
    settings += [(module, "_compiled_call_impl", None) for module in compiled]
    known = {id(module) for module in model.modules()}
    mode = model.training
    try:
        with borrowed(settings), torch.set_grad_enabled(graph):
            yield
    finally:
        # BigBird makes itself new attention modules when a text is short; they are born in the mode of the moment.
        for module in model.modules():
            if id(module) not in known:
                module.training = mode


def choose_backend(model: nn.Module, backend: Backend) -> Backend:
    if backend not in ("auto", "observer", "interface"):
        raise ChoiceError(f"backend {backend!r} is not known; there are: auto, observer, interface")
    if backend == "auto":
        return "interface" if needs_interface(model) else "observer"
    return backend


def unwrapped(model: nn.Module) -> nn.Module:
    """The model itself under `torch.compile`, `DataParallel` and `DistributedDataParallel`."""
    while True:
        inner = getattr(model, "_orig_mod", None)
        if inner is None and type(model).__name__ in ("DataParallel", "DistributedDataParallel"):
            inner = getattr(model, "module", None)
        if not isinstance(inner, nn.Module):
            return model
        model = inner
