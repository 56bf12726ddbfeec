"""Figure 1: one sentence as a layered graph, in raw attention, rollout and flow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

from attnx.explaining.explain import explain
from attnx.reproduce.captions import captioned
from attnx.reproduce.pictures import layered_graphs
from attnx.reproduce.sentences import KEY

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = {"raw": "(a) raw attention", "rollout": "(b) attention rollout", "flow": "(c) attention flow"}


def figure1(model: nn.Module, tokenizer: Any, text: str = KEY) -> Figure:
    """All positions at all layers. In (a) a line is attention between neighbouring layers; in (b) and (c) its left end
    is the input position that the relevance is of. CLS is highlighted.
    """
    explanation = explain(model, tokenizer, text, methods=list(PANELS), normalize=None, maps=True)
    maps = explanation.maps or {}
    figure = layered_graphs(
        [one.token for one in explanation.positions],
        {title: maps[method] for method, title in PANELS.items()},
        position=explanation.position,
    )
    captioned(figure, model, [text], width=figure.get_figwidth())
    return figure
