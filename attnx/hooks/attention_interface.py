"""The second backend: an attention function of our own, through transformers' attention interface.

For models whose kernels (flash, flex, paged) hide attention from an observer of torch's functions. The model's
implementation is switched for one call; `eager_mask` gives the function its mask, which would silently be None
otherwise. In other threads both do what the model's own implementation does: a forward there may begin before the
switch and end after it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attnx._signals import Uninterruptible
from attnx.attention import attention_weights, blocks, repeat_kv, visible_from_mask, visible_from_scores
from attnx.errors import CaptureError
from attnx.hooks.patching import Setting, unpatched
from attnx.hooks.record import Record, Recorder, batch_mask, can_be_computed
from attnx.hooks.tracing import Function, TracingMode

_NAME = "attnx"
_SETTING = "_attn_implementation_internal"
_OPAQUE = ("flash", "flex", "paged", "/")


class _Thread(threading.local):
    recorder: Recorder | None = None


_thread = _Thread()


def needs_interface(model: nn.Module) -> bool:
    """Whether the model's kernels hide their attention from an observer (a "/" names a kernel from a hub)."""
    implementation = _implementation(getattr(model, "config", None)) or ""
    return any(part in implementation for part in _OPAQUE)


def interface_settings(model: nn.Module) -> list[Setting]:
    """What to patch, so that `model` computes its attention with the function below."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    if not getattr(model, "_supports_attention_backend", False):
        raise CaptureError(
            f"{type(model).__name__} does not compute its attention through this transformers' attention interface; "
            "load it with attn_implementation='sdpa' or 'eager', and use backend='observer'"
        )
    AttentionInterface.register(_NAME, _attention)
    AttentionMaskInterface.register(_NAME, _mask)
    configs = {id(module.config): module.config for module in model.modules() if hasattr(module, "config")}
    return [(config, _SETTING, _NAME) for config in configs.values() if getattr(config, _SETTING, None) is not None]


class InterfaceRecording(Uninterruptible[None]):
    """Inside the block the recorder gets the attention of this thread."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._previous: tuple[Recorder | None] | None = None

    def _begin(self) -> None:
        self._previous = (_thread.recorder,)
        _thread.recorder = self._recorder

    def _end(self) -> None:
        if self._previous is not None:
            (_thread.recorder,) = self._previous


class InterfaceObserver(TracingMode):
    """Passes torch's functions to a recorder, except attention, which comes by the interface."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def call(self, func: Function, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        self._recorder.observe(name, args, kwargs, result)
        return result

    def clear(self) -> None:
        self._recorder.flow.clear()


def _mask(*args: Any, config: Any = None, **kwargs: Any) -> Any:
    """The mask as eager attention takes it; in other threads, as the model's own implementation does."""
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, eager_mask

    original = None if _thread.recorder is not None else _of_model(ALL_MASK_ATTENTION_FUNCTIONS, config)
    return (original or eager_mask)(*args, config=config, **kwargs)


def _attention(module: nn.Module, *args: Any, **kwargs: Any) -> tuple[Tensor, Any]:
    """Recorded attention; in other threads, what the model's own implementation gives."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    recorder = _thread.recorder
    kernel = None if recorder is not None else _of_model(ALL_ATTENTION_FUNCTIONS, getattr(module, "config", None))
    return kernel(module, *args, **kwargs) if kernel else _plain_attention(recorder, module, *args, **kwargs)


def _of_model(functions: Mapping[str, Callable[..., Any]], config: Any) -> Callable[..., Any] | None:
    """The function of the model's own implementation, if transformers knows one."""
    name = _implementation(config)
    return None if name in (None, _NAME) else functions.get(name)


def _implementation(config: Any) -> Any:
    """The name of a model's attention implementation, also while another thread has switched it."""
    return unpatched(config, _SETTING) if hasattr(config, _SETTING) else None


def _plain_attention(
    recorder: Recorder | None,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    position_bias: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention in the form that transformers calls; dropout is left out, as in evaluation."""
    mask = attention_mask if attention_mask is None else attention_mask[..., : key.shape[-2]]
    if position_bias is not None:
        mask = position_bias if mask is None else position_bias + mask
    operands = query, key, value
    record: Record | None = None
    options: dict[str, Any] = {"scale": scaling, "softcap": softcap, "sinks": s_aux}
    if recorder is not None and not recorder.held and can_be_computed(query, key):
        record = kept = recorder.keep(query, key, value, batch_mask(mask, query, key), module, **options)
        output = _mixed_in_blocks(kept, value)
    else:
        weights = attention_weights(query, key, mask=mask, **options)
        visible = None
        if recorder is not None and mask is not None:
            visible = visible_from_mask(mask) if mask.dtype == torch.bool else visible_from_scores(mask)
        record = None if recorder is None else recorder.add(weights, visible, value, module)
        output = (weights @ repeat_kv(value, query.shape[1]).to(weights.dtype)).to(value.dtype)
    output = output.transpose(1, 2).contiguous()
    if recorder is not None and record is not None:
        recorder.set_output(record, operands, output)
    return output, None


def _mixed_in_blocks(record: Record, values: Tensor) -> Tensor:
    """batch × head × query × width: the values mixed by computed attention, some rows at a time."""
    batch, heads, queries, _ = record.shape
    output = values.new_empty(batch, heads, queries, values.shape[-1])
    for layer, value, mixed in zip(record.computed, values, output, strict=True):
        value = repeat_kv(value[None], layer.heads)[0]
        for start, stop in blocks(layer):
            block = layer.rows(start, stop)
            mixed[:, start:stop] = block.weights @ value[:, block.keys].to(block.weights)
    return output
