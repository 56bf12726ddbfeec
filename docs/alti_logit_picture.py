"""Draw docs/images/alti-logit.png: a planted patch as ALTI, ALTI-Logit and the value path see it.

python docs/alti_logit_picture.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.patches import Rectangle

import attnx
from attnx.demo_models import GRID, generate
from attnx.demo_models.planted_patch import load_demo
from attnx.views.terminal import colour_map

PICTURE = Path(__file__).parent / "images" / "alti-logit.png"


def main() -> None:
    model, processor = load_demo()
    planted = generate(1, seed=1)[0]
    e = attnx.explain(
        model, processor, planted.image, methods=["alti", "alti_logit"], references=["lrp"], normalize=None
    )
    figure, axes = plt.subplots(1, 4, figsize=(11.4, 3.1), layout="constrained")
    axes[0].imshow(planted.image)
    axes[0].set_title(f"says {e.prediction}", fontsize=9)
    for axis, name in zip(axes[1:], ("alti", "alti_logit", "lrp"), strict=True):
        patches = np.array([e.scores(name)[one.index] for one in e.positions if one.box is not None])
        grid = patches.reshape(GRID, GRID)
        most, signed = float(abs(grid).max()), e.attributions[name].signed
        image = axis.imshow(grid, cmap=colour_map(signed=signed), vmin=-most if signed else 0, vmax=most)
        axis.set_title(f"{name}{', for and against' if signed else ''}", fontsize=9)
        figure.colorbar(image, ax=axis, shrink=0.8)
        corner = (planted.column - 0.5, planted.row - 0.5)
        axis.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor="#d7191c", linewidth=2))
    for axis in axes:
        axis.set_xticks([])
        axis.set_yticks([])
    figure.savefig(PICTURE, dpi=110)


if __name__ == "__main__":
    main()
