"""One row of an explanation, the words with their scores, as bars or as a strip of colours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from attnx.errors import ChoiceError, InputError
from attnx.registry import unknown
from attnx.render.axes import VERBATIM, given_or_new, without_frame
from attnx.render.caption import caption
from attnx.render.colours import AGAINST, FOR
from attnx.render.digits import places, written
from attnx.render.heat_map import CELL, draw_heat_map, label_room
from attnx.render.plain_text import row_name
from attnx.render.printable import printable, token_label
from attnx.render.word_rows import reduction_note, strongest
from attnx.results.drawn import Bars, Unit
from attnx.results.explanation import Explanation
from attnx.results.result import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_BARS = 60
"""More words than this are not read one by one; the strongest are drawn, and the plot says so."""
WEAK = "#e7e2dc"
_BAR_HEIGHT = 0.26
"""Inches for one bar with its word."""
_LEGEND = 22
"""Points between the axes and the title, for the legend between them."""
_ABOVE: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "borderaxespad": 0.2, "borderpad": 0.2}
"""No bar is there, whatever its length."""


def plot_row(
    explanation: Explanation,
    method: str | None = None,
    layer: int | None = None,
    *,
    kind: Bars = "bars",
    by: Unit = "word",
    content_only: bool = False,
    head: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The row of `method` at `layer`: by default what is shown first, as in `Explanation.scores`.

    Words leave special tokens out; `by="token"` shows every position. `content_only` leaves punctuation out, too.
    """
    if kind not in ("bars", "heat"):
        raise ChoiceError(unknown("kind", kind, ("bars", "heat")))
    labels, scores = _row(explanation, method, layer, head, by, content_only=content_only)
    if not labels:
        raise InputError('there is no word to draw, only special tokens; by="token" draws those')
    kept = strongest(abs(scores), MOST_BARS)
    labels, shown = [labels[index] for index in kept], scores[kept]
    name = explanation.row_name(method, layer, head)
    signed = name in explanation.signed
    if kind == "bars":
        axes = given_or_new(ax, 5.2, (0.95 if signed else 0.75) + _BAR_HEIGHT * len(kept))
        _bars(axes, labels, shown, explanation.digits.get(name), signed=signed)
    else:
        axes = given_or_new(ax, CELL * len(kept) + 1.2, CELL + label_room(labels) + 0.5)
        draw_heat_map(axes, shown[None], labels, [""], signed=signed)
    what = row_name(explanation, method, layer, head)
    notes = [
        reduction_note(len(kept), len(scores), f"{by}s"),
        _left_out(explanation, method, layer, head, content_only),
    ]
    title, pad = "\n".join([what, *(f"({one})" for one in notes if one)]), _LEGEND if axes.get_legend() else None
    axes.set_title(title, fontsize=9, loc="left", pad=pad, **VERBATIM)
    caption(axes, explanation, method, layer, head)
    return axes


def _row(
    explanation: Explanation, method: str | None, layer: int | None, head: int | None, by: Unit, *, content_only: bool
) -> tuple[list[str], Array]:
    scores = explanation.scores(method, layer, head)
    words = explanation.content_words if content_only else explanation.words
    if by == "token":
        kept = sorted(index for word in words for index in word.positions) if content_only else range(len(scores))
        return [token_label(explanation.positions[index], explanation.texts) for index in kept], scores[list(kept)]
    if by != "word":
        raise ChoiceError(unknown("by", by, ("word", "token")))
    sums = [scores[list(word.positions)].sum() for word in words]
    return [printable(word.text) for word in words], np.array(sums, dtype=float)


def _left_out(
    explanation: Explanation, method: str | None, layer: int | None, head: int | None, content_only: bool
) -> str:
    """What punctuation and special tokens hold, where they are not drawn."""
    row = explanation.row(method, layer, head)
    return f"not drawn: punctuation {row.punctuation_share:.0%}, special tokens {row.special_share:.0%}" * content_only


def _bars(axes: Axes, labels: list[str], scores: Array, exact: int | None, *, signed: bool) -> None:
    """A bar each; of scores with a sign in two colours with a legend."""
    rows, decimals = range(len(labels)), places(scores, exact)
    drawn = axes.barh(rows, scores, height=0.72, color=[FOR if score >= 0 else AGAINST for score in scores])
    axes.bar_label(drawn, [written(score, decimals) for score in scores], padding=3, fontsize=8, color="#55585f")
    if signed:
        from matplotlib.patches import Patch

        sides = [Patch(color=FOR, label="supports"), Patch(color=AGAINST, label="opposes")]
        axes.legend(handles=sides, **_ABOVE, ncols=2, fontsize=8, frameon=False)
    axes.set_yticks(rows, labels, fontsize=10, **VERBATIM)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.margins(x=0.12)
    axes.set_xticks([])
    axes.axvline(0, color=WEAK, linewidth=1, zorder=0)
    without_frame(axes)
