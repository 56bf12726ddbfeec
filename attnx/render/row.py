"""One row of an explanation, the words with their scores, as bars or as a strip of colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attnx.errors import ChoiceError, InputError
from attnx.registry import unknown
from attnx.render.axes import VERBATIM, given_or_new, without_frame
from attnx.render.heat_map import CELL, draw_heat_map, label_room
from attnx.render.plain_text import row_name
from attnx.render.printable import printable
from attnx.render.word_rows import reduction_note, strongest
from attnx.results.explanation import Bars, Explanation, Unit
from attnx.results.result import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_BARS = 60
"""More words than this are not read one by one; the strongest are drawn, and the plot says so."""
BAR, AGAINST, WEAK = "#c85200", "#5e3c99", "#e7e2dc"
_BAR_HEIGHT = 0.26
"""Inches for one bar with its word."""


def plot_row(
    explanation: Explanation,
    method: str | None = None,
    layer: int | None = None,
    *,
    kind: Bars = "bars",
    by: Unit = "word",
    head: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The row of `method` at `layer`: by default rollout at the last one, as in `Explanation.scores`.

    Words leave special tokens out; `by="token"` shows every position.
    """
    if kind not in ("bars", "heat"):
        raise ChoiceError(unknown("kind", kind, ("bars", "heat")))
    labels, scores = _row(explanation, method, layer, head, by)
    if not labels:
        raise InputError('there is no word to draw, only special tokens; by="token" draws those')
    kept = strongest(abs(scores), MOST_BARS)
    labels, shown = [labels[index] for index in kept], scores[kept]
    if kind == "bars":
        axes = given_or_new(ax, 5.2, 0.75 + _BAR_HEIGHT * len(kept))
        _bars(axes, labels, shown)
    else:
        axes = given_or_new(ax, CELL * len(kept) + 1.2, CELL + label_room(labels) + 0.5)
        draw_heat_map(axes, shown[None], labels, [""])
    what = row_name(explanation, method, layer, head)
    note = reduction_note(len(kept), len(scores), f"{by}s")
    axes.set_title(f"{what}\n({note})" if note else what, fontsize=9, loc="left", **VERBATIM)
    return axes


def _row(
    explanation: Explanation, method: str | None, layer: int | None, head: int | None, by: Unit
) -> tuple[list[str], Array]:
    scores = explanation.scores(method, layer, head)
    if by == "token":
        return [printable(token) for token in explanation.tokens], scores
    if by != "word":
        raise ChoiceError(unknown("by", by, ("word", "token")))
    sums = [scores[list(word.positions)].sum() for word in explanation.words]
    return [printable(word.text) for word in explanation.words], np.array(sums, dtype=float)


def _bars(axes: Axes, labels: list[str], scores: Array) -> None:
    places = range(len(labels))
    drawn = axes.barh(places, scores, height=0.72, color=[AGAINST if score < 0 else BAR for score in scores])
    if (scores < 0).any():
        _legend(axes)
    axes.bar_label(drawn, fmt="%.3f", padding=3, fontsize=8, color="#55585f")
    axes.set_yticks(places, labels, fontsize=10, **VERBATIM)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.margins(x=0.12)
    axes.xaxis.set_visible(False)
    axes.axvline(0, color=WEAK, linewidth=1, zorder=0)
    without_frame(axes)


def _legend(axes: Axes) -> None:
    """Which colour speaks for and which against, beneath the bars."""
    from matplotlib.patches import Patch

    shown = [Patch(color=AGAINST, label="against"), Patch(color=BAR, label="for")]
    axes.legend(handles=shown, loc="upper center", bbox_to_anchor=(0.5, 0), ncols=2, frameon=False, fontsize=8)
