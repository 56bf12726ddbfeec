"""Figure 3: rollout and flow to CLS at each layer, for the sentences of Figure 2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import nn

from attnx.explaining.explain import explain
from attnx.reproduce.captions import captioned
from attnx.reproduce.pictures import heat_maps
from attnx.reproduce.sentences import PAPER_SENTENCES

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figure3(model: nn.Module, tokenizer: Any, texts: Sequence[str] = PAPER_SENTENCES) -> Figure:
    """Two rows of panels, rollout above flow, one column for each sentence."""
    methods = ["rollout", "flow"]
    figure = heat_maps(explain(model, tokenizer, list(texts), methods=methods), methods)
    captioned(figure, model, texts, width=figure.get_figwidth())
    return figure
