"""The colours of a terminal's heat map."""

from __future__ import annotations

_STOPS = ((0.0, (238, 232, 225)), (0.5, (246, 178, 107)), (1.0, (190, 72, 0)))
"""Warm grey, apricot, burnt orange: dull to vivid on a dark terminal as on a light one, and told apart by lightness
alone, so that it reads the same to the colour-blind."""

_FEW = ("black on white", "black on bright_yellow", "black on yellow", "bright_white on red")
"""For terminals with 16 colours, where mixed ones would be rounded to any of them."""

Colour = tuple[int, int, int]


def shade(share: float, colours: str | None = None) -> str:
    """A rich style for a share between 0 and 1: the background, and whichever of black and white reads better on it.

    `colours` is the console's `color_system`.
    """
    if colours in ("standard", "windows"):
        return _FEW[min(int(share * len(_FEW)), len(_FEW) - 1)]
    background = _between(min(max(share, 0.0), 1.0))
    bright = _luminance(background)
    # The contrast ratio of WCAG 2: white on it against black on it.
    ink = "#ffffff" if 1.05 / (bright + 0.05) > (bright + 0.05) / 0.05 else "#000000"
    return f"{ink} on #{''.join(f'{one:02x}' for one in background)}"


def _between(share: float) -> Colour:
    upper = next(index for index, (stop, _) in enumerate(_STOPS) if share <= stop)
    if upper == 0:
        return _STOPS[0][1]
    (start, below), (end, above) = _STOPS[upper - 1 : upper + 1]
    part = (share - start) / (end - start)
    red, green, blue = (round(low + part * (high - low)) for low, high in zip(below, above, strict=True))
    return red, green, blue


def _luminance(colour: Colour) -> float:
    linear = [one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4 for one in (c / 255 for c in colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
