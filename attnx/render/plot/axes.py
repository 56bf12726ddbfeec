"""Where a plot is drawn: the axes that the caller gives, or those of a new figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

VERBATIM = {"parse_math": False, "usetex": False}
"""For every text that comes from the input: a token may be a dollar sign, and is no formula."""


def given_or_new(ax: Axes | None, width: float, height: float) -> Axes:
    """The caller's axes as they are, else the only axes of a new figure of that size in inches."""
    return ax if ax is not None else _new_figure(width, height).subplots()


def _new_figure(width: float, height: float) -> Figure:
    """A figure of pyplot's, which notebooks and windows show by themselves.

    A backend that needs a display refuses where there is none; the figure is then made without pyplot, and can be
    saved as ever. The backend stays the user's in both cases.
    """
    from matplotlib import pyplot
    from matplotlib.figure import Figure

    try:
        return pyplot.figure(figsize=(width, height), layout="constrained")
    except ImportError:
        return Figure(figsize=(width, height), layout="constrained")


def without_frame(axes: Axes) -> None:
    axes.tick_params(which="both", length=0)
    for side in axes.spines.values():
        side.set_visible(False)
