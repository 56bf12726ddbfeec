"""The second backend: an attention function of our own, through transformers' attention interface.

For models whose kernels (flash, flex, paged) an observer of torch's functions cannot see into. The model's attention
implementation is switched for the time of one call; `eager_mask` gives the function its mask, which would silently be
None otherwise.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from attnx.capture.borrow import Setting, borrowed
from attnx.capture.kept import batch_mask, can_be_kept, mixed_in_blocks
from attnx.capture.recompute import attention_weights, per_query_head
from attnx.capture.record import Recorder
from attnx.capture.visibility import visible_mask, visible_scores
from attnx.errors import CaptureError

_NAME = "attnx"
_OPAQUE = ("flash", "flex", "paged", "/")
_thread = threading.local()


def needs_interface(model: nn.Module) -> bool:
    """Whether the model's kernels hide their attention from an observer (a "/" names a kernel from a hub)."""
    implementation = getattr(getattr(model, "config", None), "_attn_implementation", None) or ""
    return any(part in implementation for part in _OPAQUE)


@contextmanager
def attention_interface(model: nn.Module, recorder: Recorder) -> Iterator[None]:
    """Let `model` compute its attention with `recorder` looking on, in this thread."""
    if not getattr(model, "_supports_attention_backend", False):
        raise CaptureError(
            f"{type(model).__name__} does not compute its attention through this transformers' attention interface; "
            "load it with attn_implementation='sdpa' or 'eager', and use backend='observer'"
        )
    _register()
    previous = getattr(_thread, "recorder", None)
    _thread.recorder = recorder
    try:
        with borrowed(_implementations(model)):
            yield
    finally:
        _thread.recorder = previous


def _register() -> None:
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, eager_mask

    AttentionInterface.register(_NAME, _attention)
    AttentionMaskInterface.register(_NAME, eager_mask)


def _implementations(model: nn.Module) -> list[Setting]:
    configs = {id(module.config): module.config for module in model.modules() if hasattr(module, "config")}
    return [
        (config, "_attn_implementation_internal", _NAME)
        for config in configs.values()
        if getattr(config, "_attn_implementation_internal", None) is not None
    ]


def _attention(
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
    recorder: Recorder | None = getattr(_thread, "recorder", None)
    if recorder is not None and recorder.long and can_be_kept(query, key):
        how = {"scale": scaling, "softcap": softcap, "sinks": s_aux}
        record = recorder.keep(query, key, batch_mask(mask, query, key), module, **how)
        return mixed_in_blocks(record, value).transpose(1, 2).contiguous(), None
    weights = attention_weights(query, key, mask=mask, scale=scaling, softcap=softcap, sinks=s_aux)
    if recorder is not None:
        visible = None
        if mask is not None:
            visible = visible_mask(mask) if mask.dtype == torch.bool else visible_scores(mask)
        recorder.add(weights, visible, value, module)
    value = per_query_head(value, query.shape[1])
    output = (weights @ value.to(weights.dtype)).to(value.dtype)
    return output.transpose(1, 2).contiguous(), None
