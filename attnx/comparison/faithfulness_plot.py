"""Deletion and insertion curves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from attnx.comparison.faithfulness_table import RANDOM
from attnx.comparison.plot import LOOKS

if TYPE_CHECKING:
    from attnx.comparison.faithfulness_table import Faithfulness


def plot(faithfulness: Faithfulness, axes: Any = None) -> Any:
    if axes is None:
        from matplotlib import pyplot

        _, axes = pyplot.subplots(1, 2, figsize=(9.6, 3.4), sharey=True, layout="constrained")
    titles = ("deletion: the most relevant go first", "insertion: the most relevant come first")
    for ax, curves, title in zip(axes, (faithfulness.deletion, faithfulness.insertion), titles, strict=True):
        shares = np.linspace(0, 100, 11)
        ax.plot(shares, curves[RANDOM], color="#666666", linestyle="--", label="random order")
        for number, name in enumerate(faithfulness.explainers):
            colour, mark = LOOKS[number % len(LOOKS)]
            ax.plot(shares, curves[name], color=colour, marker=mark, markersize=3.5, label=name)
        ax.set_title(title)
        ax.set_xlabel("% of positions")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel(f"{faithfulness.score} of the target")
    axes[1].legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return axes
