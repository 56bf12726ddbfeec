"""The colours of relevance in every view: orange for the answer, blue against it, light where there is little.

Lightness alone tells how much, so that it reads the same to the colour-blind and in print. A dark theme of the page has
lighter tones of the same two.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.colors import Colormap

Colour = tuple[int, int, int]
Stops = tuple[tuple[float, Colour], ...]

FOR, AGAINST = "#c85200", "#1660a0"
"""Bars."""
BEHIND_FOR, BEHIND_AGAINST = "#e8741a", "#4a6d9c"
"""Behind dark letters on paper: `--hot` and `--lines` of the page."""
STOPS_FOR: Stops = ((0.0, (238, 232, 225)), (0.5, (246, 178, 107)), (1.0, (190, 72, 0)))
STOPS_AGAINST: Stops = ((0.0, (238, 232, 225)), (0.5, (150, 190, 226)), (1.0, (22, 96, 160)))
"""From warm grey through apricot to burnt orange, or through pale to full blue: dull to vivid on a dark terminal as
on a light one."""


def colour_map(*, signed: bool) -> Colormap:
    """From nothing to the most; of what has a sign from the most against, through nothing, to the most for."""
    return _both_ways() if signed else _one_way()


@lru_cache(maxsize=1)
def _one_way() -> Colormap:
    return _between("attnx", STOPS_FOR)


@lru_cache(maxsize=1)
def _both_ways() -> Colormap:
    against = tuple((0.5 - stop / 2, colour) for stop, colour in reversed(STOPS_AGAINST))
    return _between("attnx_signed", against + tuple((0.5 + stop / 2, colour) for stop, colour in STOPS_FOR[1:]))


def _between(name: str, stops: Stops) -> Colormap:
    from matplotlib.colors import LinearSegmentedColormap

    parts = [(stop, (red / 255, green / 255, blue / 255)) for stop, (red, green, blue) in stops]
    return LinearSegmentedColormap.from_list(name, parts)
