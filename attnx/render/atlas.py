"""A head atlas to look at: its grids of layers and heads, as tables and as heat maps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from attnx.render.colours import colour_map
from attnx.render.columns import TextBlock, decimals, noted
from attnx.results.atlas import CARRIED, HeadAtlas

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BEST = 3
"""Heads that are named beneath a grid."""

_CELL = 0.38
"""Inches for a head or a layer."""

_WRITTEN = 12
"""Up to so many heads there is room for the number in each cell."""


def blocks(atlas: HeadAtlas) -> Iterator[TextBlock]:
    """A grid for "carried" and for each reference, the last layer on top, and the best heads of each."""
    count = len(atlas.texts)
    for by, values in atlas.values.items():
        lines = [["", *(f"h{head}" for head in range(atlas.heads))]]
        for layer, means in reversed(list(zip(atlas.layers, atlas.grid(by), strict=True))):
            lines.append([f"L{layer}", *(decimals(None if mean != mean else float(mean)) for mean in means)])
        best = ", ".join(
            f"layer {one.layer} head {one.head} ({decimals(one.summary.mean)})" for one in atlas.best(_BEST, by)
        )
        missing = int(np.isnan(values).sum())
        yield TextBlock(
            heading=f"{title(atlas, by).capitalize()}, mean of {count} text{'s' * (count > 1)}",
            lines=lines,
            foot=(
                *([f"Highest: {best}."] if best else []),
                *([f"Undefined and left out: {missing} of {values.size}."] if missing else []),
            ),
        )
    yield from noted(atlas.notes, count)


def rows(atlas: HeadAtlas) -> list[dict[str, Any]]:
    """A row for each text, layer and head."""
    return [
        {"text": number, "layer": atlas.layers[layer], "head": head}
        | {name: float(values[number, layer, head]) for name, values in atlas.values.items()}
        for number, layer, head in np.ndindex(atlas.values[CARRIED].shape)
    ]


def title(atlas: HeadAtlas, by: str) -> str:
    """What a grid shows."""
    if by in atlas.references:
        return f"{atlas.method} against {by} ({atlas.measure})"
    return "carried from other words"


def plot(atlas: HeadAtlas, ax: Axes | None = None, by: str | None = None) -> Any:
    if ax is not None:
        return _panel(atlas, by or CARRIED, ax)
    from matplotlib import pyplot

    shown = list(atlas.values) if by is None else [by]
    size = (len(shown) * (atlas.heads * _CELL + 1.6), len(atlas.layers) * _CELL + 1.2)
    _, panels = pyplot.subplots(1, len(shown), figsize=size, squeeze=False, layout="constrained")
    for one, name in zip(panels[0], shown, strict=True):
        _panel(atlas, name, one)
    return panels[0] if by is None else panels[0][0]


def _panel(atlas: HeadAtlas, by: str, ax: Axes) -> Axes:
    grid = atlas.grid(by)
    if by in atlas.references and atlas.measure != "top_k":
        # Agreement has a sign: grey is none, and the two ends are told apart by the colour-blind, too.
        most = max(float(np.nanmax(np.abs(grid), initial=0.0)), 1e-9)
        look = {"cmap": colour_map(signed=True), "vmin": -most, "vmax": most}
    else:
        look = {"cmap": colour_map(signed=False), "vmin": 0.0}
    image = ax.imshow(grid, origin="lower", aspect="equal", **look)  # type: ignore[arg-type]
    ax.set_facecolor("#dddddd")  # undefined
    if atlas.heads <= _WRITTEN:
        for (layer, head), mean in np.ndenumerate(grid):
            colour = "white" if _is_dark(image, mean) else "black"
            label = decimals(None if mean != mean else mean)
            ax.text(head, layer, label, ha="center", va="center", color=colour, fontsize=6.5)
    ax.set_title(title(atlas, by), fontsize=9)
    ax.set_xlabel("head")
    ax.set_ylabel("layer")
    step = 1 if atlas.heads <= 16 else 4
    ax.set_xticks(range(0, atlas.heads, step))
    ax.set_yticks(range(len(atlas.layers)), [str(layer) for layer in atlas.layers])
    ax.tick_params(length=0, labelsize=8)
    ax.spines[:].set_visible(False)
    bar = ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.04)
    bar.ax.tick_params(labelsize=7, length=2)
    bar.outline.set_visible(False)
    return ax


def _is_dark(image: Any, value: float) -> bool:
    """Whether white is easier to read on a cell than black."""
    red, green, blue, _ = image.cmap(image.norm(value))
    return bool(0.299 * red + 0.587 * green + 0.114 * blue < 0.5)
