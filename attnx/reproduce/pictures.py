"""A figure on disk: PNG to look at, SVG and PDF with real text in them to print and to search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attnx.errors import InputError
from attnx.methods.registry import title_of
from attnx.render.axes import VERBATIM
from attnx.render.heat_map import CELL, draw_layers, label_room
from attnx.render.layered_graph import draw_graph, graph_size, node_shares
from attnx.reproduce.picture_paths import picture_paths
from attnx.results.explanation import Explanation

if TYPE_CHECKING:
    from matplotlib.figure import Figure


RESOLUTION = 120
"""Dots per inch of the PNG; SVG and PDF have none."""


def save_picture(figure: Figure, path: Path) -> tuple[Path, ...]:
    """Write the figure in the format, or the formats, of `picture_paths`; no date is in the files."""
    paths = picture_paths(path)
    for one in paths:
        _WRITERS[one.suffix.lower()](figure, one)
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
    widths = [len(one.positions) * CELL for one in explanations]
    panel = len(explanations[0].layers) * CELL
    room = label_room([token for one in explanations for token in one.tokens])
    figure = Figure(
        figsize=(sum(widths) + 1.35 * len(widths) + 0.4, len(methods) * (panel + room + 0.45)),
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
