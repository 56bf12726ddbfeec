"""Where a way back through a model ends: at what embeds its tokens, or at pixels and frames themselves."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from attnx.capturing.entering import Entry
from attnx.inputs.adapter import Adapter

_DENSE = ("pixel_values", "input_features", "input_values")
"""Inputs that are numbers with a gradient, and are embedded by no table."""


def with_entry(adapter: Adapter, model: nn.Module, inputs: dict[str, Any]) -> tuple[dict[str, Any], Entry]:
    """The inputs, dense ones as leaves of the graph, and where the way ends; of an encoder–decoder in both streams.

    Of a picture with a text it ends at pixels and at tokens.
    """
    dense = next((name for name in _DENSE if name in inputs), None)
    if dense is not None:
        inputs = {**inputs, dense: inputs[dense].detach().clone().requires_grad_()}
    source: nn.Module | Tensor = adapter.embedding_module(model) if dense is None else inputs[dense]
    if dense is not None and "input_ids" in inputs:
        return inputs, (source, adapter.embedding_module(model))
    if adapter.output_embeddings is None:
        return inputs, source
    return inputs, (source, adapter.output_embeddings(model))
