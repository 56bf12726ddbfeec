"""Figure 1: one sentence as a layered graph, in raw attention, rollout and flow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

from attnx.adapters import adapter_for
from attnx.adapters.batch import collate, padding_id
from attnx.capture import capture_batch
from attnx.methods import METHODS
from attnx.reproduce.panels import layered_graphs
from attnx.reproduce.paper_sentences import KEY

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = {"raw": "(a) raw attention", "rollout": "(b) attention rollout", "flow": "(c) attention flow"}


def figure1(model: nn.Module, tokenizer: Any, text: str = KEY) -> Figure:
    """All positions at all layers. In (a) a line is attention between neighbouring layers; in (b) and (c) its left end
    is the input position that the relevance is of. CLS is highlighted.
    """
    adapter = adapter_for(model)
    prepared = adapter.prepare(model, tokenizer, text)
    inputs = collate(model, [prepared], padding_id(model, tokenizer))
    (attention,) = capture_batch(model, inputs, reduce="mean", within=adapter.within).attention
    return layered_graphs(
        [one.token for one in prepared.positions],
        {title: METHODS[method](attention).numpy() for method, title in PANELS.items()},
        position=adapter.explained(model, tokenizer, prepared),
    )
