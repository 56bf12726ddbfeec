"""An atlas as heat maps: x = heads, y = layers with the last on top."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from attnx.atlas.layout import title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from attnx.atlas.atlas import HeadAtlas

_CELL = 0.34
"""Inches for a head or a layer."""


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
