"""The second backend: an attention function of our own, through transformers' attention interface.

For models whose kernels (flash, flex, paged) an observer of torch's functions cannot see into. The model's attention
implementation is switched for the time of one call; `eager_mask` gives the function its mask, which would silently be
None otherwise. In other threads both do what the model's own implementation does: a forward there may begin before the
switch and end after it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attnx.attention import attention_weights, blocks, repeat_kv, visible_from_mask, visible_from_scores
from attnx.errors import CaptureError
from attnx.hooks.patching import Setting, unborrowed
from attnx.hooks.record import Record, Recorder, batch_mask, can_be_computed

_NAME = "attnx"
_SETTING = "_attn_implementation_internal"
_OPAQUE = ("flash", "flex", "paged", "/")
_thread = threading.local()


def needs_interface(model: nn.Module) -> bool:
    """Whether the model's kernels hide their attention from an observer (a "/" names a kernel from a hub)."""
    implementation = _implementation(getattr(model, "config", None)) or ""
    return any(part in implementation for part in _OPAQUE)


def implementations(model: nn.Module) -> list[Setting]:
    """What to set for a while, so that `model` computes its attention with the function below."""
    if not getattr(model, "_supports_attention_backend", False):
        raise CaptureError(
            f"{type(model).__name__} does not compute its attention through this transformers' attention interface; "
            "load it with attn_implementation='sdpa' or 'eager', and use backend='observer'"
        )
    _register()
    configs = {id(module.config): module.config for module in model.modules() if hasattr(module, "config")}
    return [(config, _SETTING, _NAME) for config in configs.values() if getattr(config, _SETTING, None) is not None]


class Listening:
    """While it lasts a recorder gets the attention of this thread. Its end can be repeated."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._before: tuple[Recorder | None] | None = None

    def begin(self) -> None:
        self._before = (getattr(_thread, "recorder", None),)
        _thread.recorder = self._recorder

    def end(self) -> None:
        if self._before is not None:
            (_thread.recorder,) = self._before


class Onlooker(TorchFunctionMode):
    """Tells a recorder of torch's functions, attention excepted, which comes by the interface."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self._recorder.passed(getattr(func, "__name__", ""), args, kwargs or {}, result)
        return result

    def forget(self) -> None:
        self._recorder.descent.forget()


def _register() -> None:
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register(_NAME, _attention)
    AttentionMaskInterface.register(_NAME, _mask)


def _mask(*args: Any, config: Any = None, **kwargs: Any) -> Any:
    """The mask as eager attention takes it; in threads that record nothing, as the model's own implementation does."""
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, eager_mask

    own = None if _recorder() is not None else _of_model(ALL_MASK_ATTENTION_FUNCTIONS, config)
    return (own or eager_mask)(*args, config=config, **kwargs)


def _of_model(functions: Mapping[str, Callable[..., Any]], config: Any) -> Callable[..., Any] | None:
    """The function of the model's own implementation, if transformers knows one."""
    name = _implementation(config)
    return None if name in (None, _NAME) else functions.get(name)


def _implementation(config: Any) -> Any:
    """The name of a model's attention implementation, also while another thread has switched it."""
    return unborrowed(config, _SETTING) if hasattr(config, _SETTING) else None


def _recorder() -> Recorder | None:
    return getattr(_thread, "recorder", None)


def _attention(module: nn.Module, *args: Any, **kwargs: Any) -> tuple[Tensor, Any]:
    """What a recorder gets; in threads that record nothing, what the model's own implementation gives."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    recorder = _recorder()
    kernel = None if recorder is not None else _of_model(ALL_ATTENTION_FUNCTIONS, getattr(module, "config", None))
    return kernel(module, *args, **kwargs) if kernel else _plain_attention(recorder, module, *args, **kwargs)


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
    """Plain attention in the form that transformers calls; dropout is left out, as in evaluation."""
    mask = attention_mask
    if mask is not None:
        mask = mask[..., : key.shape[-2]]
    if position_bias is not None:
        mask = position_bias if mask is None else position_bias + mask
    if recorder is not None and not recorder.held and can_be_computed(query, key):
        how: dict[str, Any] = {"scale": scaling, "softcap": softcap, "sinks": s_aux}
        record = recorder.keep(query, key, value, batch_mask(mask, query, key), module, **how)
        output = _mixed_in_blocks(record, value).transpose(1, 2).contiguous()
        recorder.wrote(record, (query, key, value), output)
        return output, None
    weights = attention_weights(query, key, mask=mask, scale=scaling, softcap=softcap, sinks=s_aux)
    if recorder is not None:
        visible = None
        if mask is not None:
            visible = visible_from_mask(mask) if mask.dtype == torch.bool else visible_from_scores(mask)
        record = recorder.add(weights, visible, value, module)
    read = (query, key, value)
    value = repeat_kv(value, query.shape[1])
    output = (weights @ value.to(weights.dtype)).to(value.dtype).transpose(1, 2).contiguous()
    if recorder is not None:
        recorder.wrote(record, read, output)
    return output, None


def _mixed_in_blocks(record: Record, values: Tensor) -> Tensor:
    """batch × head × query × width: the values mixed by what was kept, some rows at a time."""
    batch, heads, queries, _ = record.shape
    output = values.new_empty(batch, heads, queries, values.shape[-1])
    for one, value, mixed in zip(record.computed, values, output, strict=True):
        value = repeat_kv(value[None], one.heads)[0]
        for start, stop in blocks(one):
            block = one.rows(start, stop)
            mixed[:, start:stop] = block.weights @ value[:, block.keys].to(block.weights)
    return output
