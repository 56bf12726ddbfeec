"""Figure 3: rollout and flow to CLS at each layer, for the sentences of Figure 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from attnx.arguments import picture_paths
from attnx.errors import InputError
from attnx.methods import title_of
from attnx.paper.sentences import KEY, PAPER_SENTENCES
from attnx.pipeline.explain import explain
from attnx.pronouns import Sentence, panels, probe_each
from attnx.results import Explanation
from attnx.views import CELL, VERBATIM, draw_graph, draw_layers, graph_size, label_room, node_shares, printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure, FigureBase

_INCHES_A_LETTER = 0.068
"""At the size of a caption, on average."""


def model_title(model: nn.Module) -> str:
    """What readers know the model by: its name and its class; of a directory the last part alone."""
    name, kind = Path(getattr(model.config, "name_or_path", "") or "").name, type(model).__name__
    return f"{name} ({kind})" if name else kind


def captioned(figure: FigureBase, model: nn.Module, texts: Sequence[str] = (), *, width: float) -> None:
    """Write it under a figure that is so many inches wide; as many lines as it takes."""
    caption = ": ".join(
        [model_title(model), *([" · ".join(f"“{printable(text)}”" for text in texts)] if texts else [])]
    )
    lines = wrap(caption, max(20, int(width / _INCHES_A_LETTER)))
    figure.supxlabel("\n".join(lines), fontsize=8, color="0.35", **VERBATIM)


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


RESOLUTION = 120
"""Dots per inch of the PNG; SVG and PDF have none."""


def save_picture(figure: Figure, path: Path) -> tuple[Path, ...]:
    """Write the figure in the format, or the formats, of `picture_paths`; no date is in the files."""
    paths = picture_paths(path)
    for name in paths:
        _WRITERS[name.suffix.lower()](figure, name)
    return paths


def _save_svg(figure: Figure, path: Path) -> None:
    import matplotlib

    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "attnx"}):
        figure.savefig(path, metadata={"Date": None})


def _save_pdf(figure: Figure, path: Path) -> None:
    """With whole fonts, in which the words can be searched."""
    import matplotlib

    with matplotlib.rc_context({"pdf.fonttype": 42}):
        figure.savefig(path, metadata={"CreationDate": None})


def _save_png(figure: Figure, path: Path) -> None:
    """In 256 colours, which is all that these figures need: a quarter of the size."""
    from PIL import Image

    drawn = BytesIO()
    figure.savefig(drawn, format="png", dpi=RESOLUTION)
    few = Image.open(drawn).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(path, "PNG", optimize=True)


_WRITERS = {".png": _save_png, ".svg": _save_svg, ".pdf": _save_pdf}

Array = np.ndarray[Any, np.dtype[np.float64]]


def heat_maps(explanations: Sequence[Explanation], methods: Sequence[str], *, titles: bool = True) -> Figure:
    """One column of panels for each sentence, one row for each method.

    Each panel has its own scale, as in the paper: flow and rollout are of different size, and what is compared is
    where the weight lies.
    """
    from matplotlib.figure import Figure

    if not explanations:
        raise InputError("a figure needs at least one sentence")
    widths = [len(explanation.positions) * CELL for explanation in explanations]
    panel = len(explanations[0].layers) * CELL
    label_height = label_room([token for explanation in explanations for token in explanation.tokens])
    figure = Figure(
        figsize=(sum(widths) + 1.35 * len(widths) + 0.4, len(methods) * (panel + label_height + 0.45)),
        layout="constrained",
    )
    panels = figure.subplots(len(methods), len(widths), width_ratios=widths, squeeze=False)
    for row, method in enumerate(methods):
        for column, explanation in enumerate(explanations):
            axes = panels[row, column]
            draw_layers(axes, explanation, method)
            if column == 0:
                axes.set_ylabel(f"{title_of(method)}\nlayer", fontsize=9)
            if row == 0 and titles and explanation.prediction:
                axes.set_title(f"predicted: {explanation.prediction}", fontsize=9, pad=7, **VERBATIM)
    return figure


def layered_graphs(tokens: Sequence[str], panels: Mapping[str, Array], *, position: int = 0) -> Figure:
    """One panel for each named weights[layer, query, key], side by side, on one scale of line widths.

    For relevance of the input (rollout, flow), a line's left end names the input position.
    """
    from matplotlib.figure import Figure

    shares = {name: node_shares(weights) for name, weights in panels.items()}
    largest = max(float(weights.max()) for weights in shares.values())
    layers = range(1, 1 + len(next(iter(panels.values()))))
    width, height = graph_size(tokens, len(layers))
    figure = Figure(figsize=(width * len(panels), height), layout="constrained")
    for axes, (name, weights) in zip(figure.subplots(1, len(panels), squeeze=False)[0], shares.items(), strict=True):
        draw_graph(axes, tokens, weights / largest, position=position, layers=layers)
        axes.set_title(name, fontsize=11)
    return figure


PANELS = {"raw": "(a) raw attention", "rollout": "(b) attention rollout", "flow": "(c) attention flow"}


def figure1(model: nn.Module, tokenizer: Any, text: str = KEY) -> Figure:
    """All positions at all layers. In (a) a line is attention between neighbouring layers; in (b) and (c) its left end
    is the input position that the relevance is of. CLS is highlighted.
    """
    explanation = explain(model, tokenizer, text, methods=list(PANELS), normalize=None, all_queries=True)
    figure = layered_graphs(
        [position.token for position in explanation.positions],
        {title: explanation.matrix(method) for method, title in PANELS.items()},
        position=explanation.position,
    )
    captioned(figure, model, [text], width=figure.get_figwidth())
    return figure


def figure2(model: nn.Module, tokenizer: Any, texts: Sequence[str] = PAPER_SENTENCES) -> Figure:
    """One panel for each sentence, with what the model predicts above it."""
    figure = heat_maps(explain(model, tokenizer, list(texts), methods="raw"), ["raw"])
    captioned(figure, model, texts, width=figure.get_figwidth())
    return figure


def figure3(model: nn.Module, tokenizer: Any, texts: Sequence[str] = PAPER_SENTENCES) -> Figure:
    """Two rows of panels, rollout above flow, one column for each sentence."""
    methods = ["rollout", "flow"]
    figure = heat_maps(explain(model, tokenizer, list(texts), methods=methods), methods)
    captioned(figure, model, texts, width=figure.get_figwidth())
    return figure
