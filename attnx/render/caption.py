"""The prediction, the target and the verdict under a plot: small, wrapped, and never in the way of the axes."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING

from attnx.render.axes import VERBATIM
from attnx.render.plain_text import answered, judgement
from attnx.results.explanation import Explanation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CHARACTERS_AN_INCH = 15
"""Of the small letters of a caption."""


def caption(
    axes: Axes, explanation: Explanation, method: str | None, layer: int | None = None, head: int | None = None
) -> None:
    """The prediction and the weightiest remarks beneath the axes of a row; what the axes say there stays above."""
    name = explanation.row_name(method, layer, head)
    width = axes.get_window_extent().width / axes.figure.dpi
    lines = [answered(explanation).removesuffix(" · "), judgement(explanation, name, layer)]
    said = "\n".join(fill(line, max(40, round(_CHARACTERS_AN_INCH * width))) for line in lines if line)
    before = axes.get_xlabel()
    axes.set_xlabel(f"{before}\n{said}" if before else said, fontsize=8, loc="left", color="#55585f", **VERBATIM)
