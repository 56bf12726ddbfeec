"""Figure 4: two masked pronouns, what the model predicts for them, and which of two people their masks draw from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import nn

from attnx.probes.pronouns.probe import probe_each
from attnx.probes.pronouns.sentence import Sentence
from attnx.render.pronouns import panels
from attnx.reproduce.captions import captioned

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODEL = "bert-large-uncased"
"""The paper's, on the hub."""
NEEDED = "any masked language model, such as a BERT"

AUTHOR = Sentence(
    "The author talked to Sara about [MASK] book",
    candidates=("author", "Sara"),
    pronouns=("his", "her"),
    implies={"his": "author", "her": "Sara"},
)
MARY = Sentence(
    "Mary convinced John of [MASK] love",
    candidates=("Mary", "John"),
    pronouns=("his", "her"),
    implies={"his": "John", "her": "Mary"},
)


def figure4(model: nn.Module, tokenizer: Any, sentences: Sequence[Sentence] = (AUTHOR, MARY)) -> Figure:
    """A row for each sentence: bars of p(his) and p(her), and raw attention, rollout and flow to the two candidates."""
    figure = panels(probe_each(model, tokenizer, sentences))
    captioned(figure.subfigs[-1], model, width=figure.get_figwidth())  # the sentences stand above their rows
    return figure
