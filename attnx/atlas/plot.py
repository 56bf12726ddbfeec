"""An atlas as heat maps: x = heads, y = layers with the last on top."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from attnx.atlas.layout import title
from attnx.render.columns import decimals

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from attnx.atlas.atlas import HeadAtlas

_CELL = 0.38
"""Inches for a head or a layer."""

_WRITTEN = 12
"""Up to so many heads there is room for the number in each cell."""


def plot(atlas: HeadAtlas, ax: Axes | None = None, by: str | None = None) -> Any:
    if ax is not None:
        return _panel(atlas, by or "carried", ax)
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
        # Agreement has a sign: white is none, and the two ends are told apart by the colour-blind, too.
        most = max(float(np.nanmax(np.abs(grid), initial=0.0)), 1e-9)
        look = {"cmap": "PuOr_r", "vmin": -most, "vmax": most}
    else:
        look = {"cmap": "YlGnBu", "vmin": 0.0}
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
