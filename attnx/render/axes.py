"""What plots share: the axes that the caller gives or those of a new figure, and the looks of their lines."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from attnx.errors import ArgumentError
from attnx.registry import quoted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

P = ParamSpec("P")
T = TypeVar("T")

LOOKS = (("#0072b2", "o"), ("#d55e00", "s"), ("#009e73", "^"), ("#cc79a7", "D"), ("#56b4e9", "v"), ("#e69f00", "P"))
"""Colours that the colour-blind tell apart (Okabe & Ito), and a mark each for print without colour."""

VERBATIM: dict[str, Any] = {"parse_math": False, "usetex": False}
"""For every text that comes from the input: a token may be a dollar sign, and is no formula."""


def verbatim(draw: Callable[P, T]) -> Callable[P, T]:
    """Draw without formulas: names of methods, titles and labels may come from a file, and hold dollar signs."""

    @wraps(draw)
    def drawn(*args: P.args, **options: P.kwargs) -> T:
        from matplotlib import rc_context

        with rc_context({"text.parse_math": False, "text.usetex": False}):
            return draw(*args, **options)

    return drawn


def given_or_new(ax: Axes | None, width: float, height: float) -> Axes:
    """The caller's axes as they are, else the only axes of a new figure of that size in inches.

    A new figure is pyplot's, so that notebooks and windows show it by themselves; pyplot draws without a display, too.
    """
    if ax is not None:
        if not hasattr(ax, "get_figure"):
            raise ArgumentError(f"ax must be axes of matplotlib, found {quoted(ax)}; plt.subplots() makes some")
        return ax
    from matplotlib import pyplot

    return pyplot.figure(figsize=(width, height), layout="constrained").subplots()


def without_frame(axes: Axes) -> None:
    axes.tick_params(which="both", length=0)
    for side in axes.spines.values():
        side.set_visible(False)
