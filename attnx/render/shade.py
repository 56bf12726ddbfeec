"""The colours of a terminal's heat map."""

from __future__ import annotations

Colour = tuple[int, int, int]
Stops = tuple[tuple[float, Colour], ...]

_FOR: Stops = ((0.0, (238, 232, 225)), (0.5, (246, 178, 107)), (1.0, (190, 72, 0)))
_AGAINST: Stops = ((0.0, (238, 232, 225)), (0.5, (150, 190, 226)), (1.0, (22, 96, 160)))
"""From warm grey through apricot to burnt orange, or to blue for what speaks against: dull to vivid on a dark terminal
as on a light one, and told apart by lightness alone, so that it reads the same to the colour-blind."""

_FEW_FOR = ("black on white", "black on bright_yellow", "black on yellow", "bright_white on red")
_FEW_AGAINST = ("black on white", "black on bright_cyan", "black on cyan", "bright_white on blue")
"""For terminals with 16 colours, where mixed ones would be rounded to any of them."""


def shade(share: float, colours: str | None = None) -> str:
    """A rich style for a share between −1 and 1: the background, and whichever of black and white reads better on it.

    `colours` is the console's `color_system`.
    """
    strength = min(abs(share), 1.0)
    if colours in ("standard", "windows"):
        few = _FEW_FOR if share >= 0 else _FEW_AGAINST
        return few[min(int(strength * len(few)), len(few) - 1)]
    background = _between(strength, _FOR if share >= 0 else _AGAINST)
    bright = _luminance(background)
    # The contrast ratio of WCAG 2: white on it against black on it.
    ink = "#ffffff" if 1.05 / (bright + 0.05) > (bright + 0.05) / 0.05 else "#000000"
    return f"{ink} on #{''.join(f'{one:02x}' for one in background)}"


def _between(share: float, stops: Stops) -> Colour:
    upper = max(next(index for index, (stop, _) in enumerate(stops) if share <= stop), 1)
    (start, below), (end, above) = stops[upper - 1 : upper + 1]
    part = (share - start) / (end - start)
    red, green, blue = (round(low + part * (high - low)) for low, high in zip(below, above, strict=True))
    return red, green, blue


def _luminance(colour: Colour) -> float:
    linear = [one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4 for one in (c / 255 for c in colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
