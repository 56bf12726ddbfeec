"""One call: run the model on inputs, return its attention, leave no trace."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from attnx.adapters import Projection, called, find_projection, takes_logits_to_keep
from attnx.arguments import checked
from attnx.attention import AttentionLayer, AttentionTensor, ComputedLayer, RecomputedLayer
from attnx.errors import ArgumentError, AttnxError, CaptureError, ChoiceError, InputError, in_a_line
from attnx.hooks.assemble import assemble
from attnx.hooks.forward import Backend, choose_backend, eval_mode, unwrap_model, watch
from attnx.hooks.patching import Entry
from attnx.hooks.record import Extra, Merging, Recorder, beside
from attnx.hooks.verification import check_output
from attnx.registry import unknown

LENGTH = 1_024
"""Positions of the piece: as many as an input may have that is held."""

_BY_POSITION = {"input_ids", "inputs_embeds", "attention_mask", "token_type_ids", "position_ids"}
_ANSWERS = "logits_to_keep"


def beginning_of(inputs: Mapping[str, Any]) -> dict[str, Any] | None:
    """The first positions of one long text, as the model takes them; None where there is no such piece of it."""
    tensors = {name: input_ for name, input_ in inputs.items() if isinstance(input_, Tensor)}
    texts = [tensor for name, tensor in tensors.items() if name in ("input_ids", "inputs_embeds")]
    if len(texts) != 1 or len(texts[0]) != 1 or texts[0].shape[1] < 2 * LENGTH:
        return None
    cut = {
        name for name, tensor in tensors.items() if name in _BY_POSITION and tensor.shape[1:2] == texts[0].shape[1:2]
    }
    if tensors.keys() - cut - {_ANSWERS}:
        return None
    piece = {name: input_[:, :LENGTH] if name in cut else input_ for name, input_ in inputs.items()}
    if _ANSWERS in tensors:
        piece[_ANSWERS] = torch.tensor([LENGTH - 1], device=texts[0].device)
    return piece


def run_alike(piece: AttentionTensor, whole: AttentionTensor) -> bool:
    """Whether the model ran a piece as it ran all of it."""
    return list(map(_way, piece.layers)) == list(map(_way, whole.layers))


def _way(level: AttentionLayer) -> tuple[Any, ...]:
    return level.module, _kind(level), level.heads, level.kind, level.mask.triangular, level.mask.source is None


def _kind(level: AttentionLayer) -> type:
    """How it is kept; what is made anew would be kept if it were shorter."""
    return ComputedLayer if isinstance(level, RecomputedLayer) else type(level)


_proven: weakref.WeakSet[nn.Module] = weakref.WeakSet()
"""Models whose watched output was once compared with a plain run. The observer changes no operation: once is enough."""

_Watched: TypeAlias = Callable[[Mapping[str, Any]], tuple[Any, list[AttentionTensor], Recorder]]
"""Runs a model on inputs and looks on: what it returned, and what was seen."""


@dataclass(frozen=True, eq=False)
class CapturedBatch:
    """A run of a batch: what the model returned, and the attention of each input without its padding."""

    output: Any
    attention: list[AttentionTensor]
    answered: tuple[int, ...] | None = None
    """The positions at which a language model's answer was computed; None for all."""
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
    """The attention of `model` on one input: `attnx.capture(model, **tokenizer(text, return_tensors="pt"))`.

    `head` ("mean", "max", "min" or a function) merges the heads of each layer as they arrive, so that all of all
    layers are never in memory together; None keeps every one. `held=False` keeps queries and keys instead of weights,
    and computes rows where a method reads them, for inputs whose maps would not fit. `extras` may ask for "values",
    "projections" and "blocks", which say how attention joins the residual stream, and for the "rest" of each block,
    for which the model is kept; with `gradients` the weights are part of the model's autograd graph. `module` picks one
    stack of a model that has several, by the beginning of its name.

    Of an encoder–decoder (`decoder_input_ids=…`) the attention is of both streams in one chain; `module` picks
    "encoder", "self" or "cross" of it. Of a picture with a text it is of the vision tower, the projector and the
    decoder in one chain.

    >>> model, tokenizer = attnx.load_demo()
    >>> capture(model, **tokenizer("the keys", return_tensors="pt"))
    AttentionTensor(6 layers, 8 heads, 4 positions)
    """
    if not isinstance(module, str):
        raise ChoiceError(f"module must be the beginning of a module's name, found {module!r}")
    _check_names(model, inputs)
    captured = capture_batch(
        model, inputs, head=head, extras=extras, gradients=gradients, held=held, backend=backend, module=module
    ).attention
    if len(captured) != 1:
        raise InputError(
            f"capture() takes one input, this is a batch of {len(captured)}; "
            "use attnx.explain with a list, or: from attnx.hooks.capture import capture_batch"
        )
    return captured[0]


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
    anew: bool = False,
) -> CapturedBatch:
    """Run `model(**inputs)` on a batch, padded on the right or not at all, and return its output and attention.

    With `logits_at` a language model answers at these positions only, if it can: its logits for 8192 positions and 50
    thousand tokens would take more memory than the queries and keys of all layers. A layer whose attention cannot be
    computed from queries and keys (it is no fused kernel, or has a bias of its own) is held all the same.

    With `entry`, the module that embeds the input or the input itself, the output is part of an autograd graph that
    goes back to it, and each level brings `outputs`, its place in that graph. With `anew` levels that would take too
    much are made again where they are read, by the model as it is then.
    """
    model = unwrap_model(model)
    answered = tuple(dict.fromkeys(logits_at)) if logits_at is not None and takes_logits_to_keep(model) else None
    if answered is not None:
        inputs = {**inputs, "logits_to_keep": torch.tensor(answered, device=_device(inputs))}
    how: dict[str, Any] = {"head": head, "extras": extras, "gradients": gradients, "held": held, "backend": backend}
    how["anew"] = anew

    def watched(inputs: Mapping[str, Any]) -> tuple[Any, list[AttentionTensor], Recorder]:
        with watch(model, batch=_batch_size(inputs), entry=entry, **how) as recorder:
            output = run_model(model, inputs)
        padding = {
            "padding": _real(inputs, "attention_mask"),
            "output_padding": _real(inputs, "decoder_attention_mask"),
        }
        attention_tensors = assemble(
            recorder,
            type(model).__name__,
            module=module,
            projection=lambda: _projection(model, inputs, recorder.batch),
            **padding,
        )
        return output, attention_tensors, recorder

    output, attention, recorder = watched(inputs)
    by_interface = choose_backend(model, backend) == "interface"
    if by_interface or model not in _proven:
        piece = None if by_interface else beginning_of(inputs)
        if piece is None or not _prove_by(model, piece, attention, watched):
            with eval_mode(model):
                check_output(output, run_model(model, inputs), type(model).__name__)
        _proven.add(model)
    return CapturedBatch(output, attention, answered, beside(attention[0].modules, recorder.mixers))


def _projection(model: nn.Module, inputs: Mapping[str, Any], batch: int) -> Projection | None:
    """How a picture enters the text; several inputs, whose pictures run together, are not told apart."""
    if batch != 1:
        return None
    with eval_mode(model):
        return find_projection(model, inputs)


_SWITCHES = {
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "return_dict",
    "return_loss",
    "use_cache",
}
"""What models take among their further keywords, and do not name."""


def _check_names(model: nn.Module, inputs: Mapping[str, Any]) -> None:
    """Many models take any keyword and swallow it: one that they do not name, and that is no tensor, is a slip."""
    named = [
        parameter.name
        for parameter in signature(unwrap_model(model).forward).parameters.values()
        if parameter.kind in _NAMED
    ]
    for name, value in inputs.items():
        if named and name not in (*named, *_SWITCHES) and isinstance(value, str | int | float | None):
            options = [parameter for parameter in signature(capture).parameters if parameter not in ("model", "inputs")]
            raise ArgumentError(unknown("argument of capture", name, [*options, *named]))


_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def _prove_by(model: nn.Module, piece: Mapping[str, Any], whole: Sequence[AttentionTensor], watched: _Watched) -> bool:
    """That a piece of the input gives watched what it gives by itself; False where it is not run as the whole is."""
    output, attention, _ = watched(piece)
    if not run_alike(attention[0], whole[0]):
        return False
    with eval_mode(model):
        check_output(output, run_model(model, piece), type(model).__name__)
    return True


def run_model(model: nn.Module, inputs: Mapping[str, Any]) -> Any:
    """What the model makes of the inputs; what it has to say against them is told in its own words."""
    try:
        return called(model, inputs)
    except (AttnxError, MemoryError):
        raise
    except Exception as error:
        lacks_output = getattr(getattr(model, "config", None), "is_encoder_decoder", False) and not any(
            name.startswith("decoder_input") for name in inputs
        )
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
    """How many inputs these are, whatever the order in which they are named."""
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
