"""Run a model on inputs and return its attention; the model is left as it was."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from attnx._signals import Uninterruptible
from attnx.adapters import Projection, called, find_projection, takes_logits_to_keep
from attnx.arguments import checked
from attnx.attention import AttentionLayer, AttentionTensor, ComputedLayer, RecomputedLayer
from attnx.errors import ArgumentError, AttnxError, CaptureError, ChoiceError, InputError, in_a_line
from attnx.hooks.assemble import assemble
from attnx.hooks.attention_interface import InterfaceObserver, InterfaceRecording, interface_settings, needs_interface
from attnx.hooks.blocks import BlockObserver
from attnx.hooks.observer import Observer
from attnx.hooks.patching import EvalMode, active_mode, eval_mode, unwrap_model
from attnx.hooks.recompute import RecomputationObserver
from attnx.hooks.record import Extra, Merging, Recorder, mixers_beside
from attnx.hooks.tracing import Entry, InputLeaves
from attnx.hooks.verification import check_output
from attnx.registry import unknown

Backend: TypeAlias = Literal["auto", "observer", "interface"]

PREFIX_LENGTH = 1_024
"""Positions on which the run of a long input is verified."""

_proven: weakref.WeakSet[nn.Module] = weakref.WeakSet()
"""Models whose observed output was compared with a plain run: once is enough, the observer changes no operation."""

_ObservedRun: TypeAlias = Callable[[Mapping[str, Any]], tuple[Any, list[AttentionTensor], Recorder]]


@dataclass(frozen=True, eq=False)
class CapturedBatch:
    """A run of a batch: the model's output, and the attention of each input without its padding."""

    output: Any
    attention: list[AttentionTensor]
    answered: tuple[int, ...] | None = None
    """The positions at which a language model computed its logits; None for all."""
    mixers: tuple[str, ...] = ()
    """Modules that mix positions beside attention, in its own layers."""


@checked
def capture(
    model: nn.Module,
    *,
    head: Merging = None,
    extras: tuple[Extra, ...] = (),
    gradients: bool = False,
    held: bool = True,
    backend: Backend = "auto",
    module: str = "",
    **inputs: Any,
) -> AttentionTensor:
    """The attention of `model` on one input.

    Of an encoder–decoder (`decoder_input_ids=…`) it is one chain over both sequences, of an image with a text one over
    the vision tower, the projector and the decoder.

    Args:
        model: A model of transformers, in memory.
        head: "mean", "max", "min" or a function merges the heads of each layer as they arrive, so that all of all
            layers are never in memory together; None keeps every head.
        extras: Further tensors of each layer: "values", "projections" and "blocks", which say how attention joins the
            residual stream; "gates"; the "rest" of each block, for which the model is kept.
        gradients: Whether the weights are part of the model's autograd graph.
        held: False keeps queries and keys instead of weights, and computes rows where a method reads them, for inputs
            whose weights would not fit into memory.
        backend: "observer" or "interface"; "auto" takes the one that sees the model's kernels.
        module: Selects one stack of a model that has several, by the beginning of its name; of an encoder–decoder also
            "encoder", "self" or "cross".
        inputs: The model's own arguments.

    Returns:
        Layer × head × query × key.

    Raises:
        CaptureError: If the model has no attention over all positions, or not one stack of it.
        InputError: If the inputs are a batch of several.

    Example:
        >>> model, tokenizer = attnx.load_demo()
        >>> capture(model, **tokenizer("the keys", return_tensors="pt"))
        AttentionTensor(6 layers, 8 heads, 4 positions)
    """
    if not isinstance(module, str):
        raise ChoiceError(f"module must be the beginning of a module's name, found {module!r}")
    _check_names(model, inputs)
    attention = capture_batch(
        model, inputs, head=head, extras=extras, gradients=gradients, held=held, backend=backend, module=module
    ).attention
    if len(attention) != 1:
        raise InputError(
            f"capture() takes one input, this is a batch of {len(attention)}; "
            "use attnx.explain with a list, or: from attnx.hooks.capture import capture_batch"
        )
    return attention[0]


def capture_batch(
    model: nn.Module,
    inputs: Mapping[str, Any],
    *,
    head: Merging = None,
    extras: tuple[Extra, ...] = (),
    gradients: bool = False,
    held: bool = True,
    backend: Backend = "auto",
    module: str = "",
    logits_at: Sequence[int] | None = None,
    entry: Entry | None = None,
    recompute: bool = False,
) -> CapturedBatch:
    """Run `model(**inputs)` on a batch, padded on the right or not at all, and return its output and attention.

    With `logits_at` a language model computes logits at these positions only, if it can: those of 8192 positions and
    50 thousand tokens would take more memory than the queries and keys of all layers. A layer whose attention cannot be
    computed from queries and keys (it is no fused kernel, or has a bias of its own) keeps its weights all the same.

    With `entry`, the module that embeds the input or the input itself, gradients of the output go back to it, and each
    layer has `outputs`, its tensor in that graph. With `recompute` queries and keys that would take too much memory are
    computed again where they are read, by the model as it is then.
    """
    model = unwrap_model(model)
    answered = tuple(dict.fromkeys(logits_at)) if logits_at is not None and takes_logits_to_keep(model) else None
    if answered is not None:
        inputs = {**inputs, "logits_to_keep": torch.tensor(answered, device=_device(inputs))}

    def observed_run(inputs: Mapping[str, Any]) -> tuple[Any, list[AttentionTensor], Recorder]:
        with recording(
            model,
            batch=_batch_size(inputs),
            head=head,
            extras=extras,
            gradients=gradients,
            held=held,
            backend=backend,
            entry=entry,
            recompute=recompute,
        ) as recorder:
            output = run_model(model, inputs)
        attention = assemble(
            recorder,
            type(model).__name__,
            padding=_real(inputs, "attention_mask"),
            output_padding=_real(inputs, "decoder_attention_mask"),
            module=module,
            projection=lambda: _projection(model, inputs, recorder.batch),
        )
        return output, attention, recorder

    output, attention, recorder = observed_run(inputs)
    by_interface = choose_backend(model, backend) == "interface"
    if by_interface or model not in _proven:
        prefix = None if by_interface else prefix_of(inputs)
        if prefix is None or not _verified_on(prefix, model, attention[0], observed_run):
            with eval_mode(model):
                check_output(output, run_model(model, inputs), type(model).__name__)
        _proven.add(model)
    return CapturedBatch(output, attention, answered, mixers_beside(attention[0].modules, recorder.mixers))


def recording(
    model: nn.Module,
    *,
    batch: int = 1,
    head: Merging = None,
    extras: tuple[Extra, ...] = (),
    gradients: bool = False,
    held: bool = True,
    backend: Backend = "auto",
    entry: Entry | None = None,
    recompute: bool = False,
) -> Uninterruptible[Recorder]:
    """Record the attention of every call of `model` inside the block, in this thread.

        with recording(model) as recorder:
            model(**inputs)
        recorder.records[0].weights        # batch × head × query × key of layer 1

    The model is in evaluation mode meanwhile, and without gradients unless `gradients` is true. `batch` is the number
    of inputs that a call gets: some models fold it into their heads. The other options are those of `capture_batch`.
    """
    model = unwrap_model(model)
    recorder = Recorder(
        model, batch=batch, head=head, extras=extras, gradients=gradients, held=held, to_input=entry is not None
    )
    by_interface = choose_backend(model, backend) == "interface"
    mode = InterfaceObserver(recorder) if by_interface else Observer(recorder)
    settings = interface_settings(model) if by_interface else []
    to_graph = gradients or entry is not None
    contexts: list[Uninterruptible[Any]] = [EvalMode(model, gradients=to_graph, mode=mode, settings=settings)]
    if by_interface:
        contexts.append(InterfaceRecording(recorder))
    if "blocks" in recorder.extras:
        contexts.append(BlockObserver(model, recorder))
    if recompute and not (held or extras or gradients or by_interface or entry is not None):
        contexts.append(RecomputationObserver(model, recorder))
    if entry is not None:
        contexts.append(active_mode(InputLeaves(*(entry if isinstance(entry, tuple) else (entry,)))))
    return _Recording(recorder, contexts, mode.clear)


class _Recording(Uninterruptible[Recorder]):
    """One exit for all that a recorded run holds: the backend, torch's switches, the model's settings."""

    def __init__(self, recorder: Recorder, contexts: Sequence[Uninterruptible[Any]], clear: Callable[[], None]) -> None:
        self._recorder, self._contexts, self._stack = recorder, contexts, ExitStack()
        self._clear = clear

    def _begin(self) -> Recorder:
        self._stack.callback(self._clear)
        for context in self._contexts:
            self._stack.enter_context(context)
        return self._recorder

    def _end(self) -> None:
        self._stack.close()


def choose_backend(model: nn.Module, backend: Backend) -> Backend:
    if backend not in ("auto", "observer", "interface"):
        raise ChoiceError(f"backend {backend!r} is not known; there are: auto, observer, interface")
    if backend == "auto":
        return "interface" if needs_interface(model) else "observer"
    return backend


_BY_POSITION = {"input_ids", "inputs_embeds", "attention_mask", "token_type_ids", "position_ids"}
_LOGITS = "logits_to_keep"


def prefix_of(inputs: Mapping[str, Any]) -> dict[str, Any] | None:
    """The first positions of one long text, as the model takes them; None where it has no such prefix."""
    tensors = {name: tensor for name, tensor in inputs.items() if isinstance(tensor, Tensor)}
    texts = [tensor for name, tensor in tensors.items() if name in ("input_ids", "inputs_embeds")]
    if len(texts) != 1 or len(texts[0]) != 1 or texts[0].shape[1] < 2 * PREFIX_LENGTH:
        return None
    length = texts[0].shape[1:2]
    cut = {name for name, tensor in tensors.items() if name in _BY_POSITION and tensor.shape[1:2] == length}
    if tensors.keys() - cut - {_LOGITS}:
        return None
    prefix = {name: value[:, :PREFIX_LENGTH] if name in cut else value for name, value in inputs.items()}
    if _LOGITS in tensors:
        prefix[_LOGITS] = torch.tensor([PREFIX_LENGTH - 1], device=texts[0].device)
    return prefix


def _verified_on(prefix: Mapping[str, Any], model: nn.Module, whole: AttentionTensor, run: _ObservedRun) -> bool:
    """Compare the observed run of a prefix with a plain one; False where the model runs it otherwise than the whole."""
    output, attention, _ = run(prefix)
    if not same_run(attention[0], whole):
        return False
    with eval_mode(model):
        check_output(output, run_model(model, prefix), type(model).__name__)
    return True


def same_run(prefix: AttentionTensor, whole: AttentionTensor) -> bool:
    """Whether the model ran a prefix as it ran the whole input."""

    def kind(layer: AttentionLayer) -> tuple[Any, ...]:
        stored = ComputedLayer if isinstance(layer, RecomputedLayer) else type(layer)  # a shorter one is kept
        return layer.module, stored, layer.heads, layer.kind, layer.mask.triangular, layer.mask.source is None

    return list(map(kind, prefix.layers)) == list(map(kind, whole.layers))


def _projection(model: nn.Module, inputs: Mapping[str, Any], batch: int) -> Projection | None:
    """How an image enters the text; images of several inputs that ran together cannot be separated."""
    if batch != 1:
        return None
    with eval_mode(model):
        return find_projection(model, inputs)


_SWITCHES = {
    *("output_attentions", "output_hidden_states", "output_router_logits", "return_dict", "return_loss", "use_cache"),
}
"""What models take among their further keywords, and do not name."""


def _check_names(model: nn.Module, inputs: Mapping[str, Any]) -> None:
    """Many models swallow any keyword: one that they do not name, and that is no tensor, is a mistake."""
    kinds = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    parameters = signature(unwrap_model(model).forward).parameters.values()
    names = [parameter.name for parameter in parameters if parameter.kind in kinds]
    for name, value in inputs.items():
        if names and name not in (*names, *_SWITCHES) and isinstance(value, str | int | float | None):
            options = [parameter for parameter in signature(capture).parameters if parameter not in ("model", "inputs")]
            raise ArgumentError(unknown("argument of capture", name, [*options, *names]))


def run_model(model: nn.Module, inputs: Mapping[str, Any]) -> Any:
    """The model's output; its own error is part of ours."""
    try:
        return called(model, inputs)
    except (AttnxError, MemoryError):
        raise
    except Exception as error:
        encoder_decoder = getattr(getattr(model, "config", None), "is_encoder_decoder", False)
        lacks_output = encoder_decoder and not any(name.startswith("decoder_input") for name in inputs)
        raise CaptureError(
            f"{type(model).__name__} refused the input ({in_a_line(error)}); {_NO_OUTPUT if lacks_output else _CHECK}"
        ) from error


_CHECK = "check that tokenizer and model belong together, and that the model runs on it by itself"
_NO_OUTPUT = (
    "it reads an output beside the source, and none is given: decoder_input_ids=torch.tensor([[start, …]]), start as "
    "in model.config.decoder_start_token_id; or capture(model.get_encoder(), …) for the source alone"
)


def _real(inputs: Mapping[str, Any], name: str) -> Tensor | None:
    """batch × n, true where the attention mask says that a position is no padding."""
    padding = inputs.get(name)
    return padding.bool().cpu() if isinstance(padding, Tensor) and padding.ndim == 2 else None


def _device(inputs: Mapping[str, Any]) -> torch.device | None:
    return next((value.device for value in inputs.values() if isinstance(value, Tensor)), None)


_BATCHED = ("input_ids", "inputs_embeds", "attention_mask")
"""What has an entry for each input in every model; pixels may come as patches of all images in one row."""


def _batch_size(inputs: Mapping[str, Any]) -> int:
    sizes = {name: value.shape[0] for name, value in inputs.items() if isinstance(value, Tensor) and value.ndim >= 2}
    for name in _BATCHED:
        if name in sizes:
            return sizes[name]
    if sizes:
        return min(sizes.values())
    raise InputError(
        "capture needs the model's inputs as tensors with a batch axis: "
        'attnx.capture(model, **tokenizer(text, return_tensors="pt"))'
    )
