"""Figure 2: raw attention of CLS at each layer, for three sentences."""

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


def figure2(model: nn.Module, tokenizer: Any, texts: Sequence[str] = PAPER_SENTENCES) -> Figure:
    """One panel for each sentence, with what the model predicts above it."""
    figure = heat_maps(explain(model, tokenizer, list(texts), methods="raw"), ["raw"])
    captioned(figure, model, texts, width=figure.get_figwidth())
    return figure
