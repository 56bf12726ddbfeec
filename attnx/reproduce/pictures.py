"""A figure on disk: PNG to look at, SVG with real text in it to print and to search."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from attnx.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg")
RESOLUTION = 120
"""Dots per inch of the PNG; the SVG has none."""


def save_picture(figure: Figure, path: Path) -> tuple[Path, Path]:
    """Write `path`.png and `path`.svg (a suffix of either kind in `path` is taken off); no date is in the files."""
    import matplotlib

    stem = path.with_suffix("") if path.suffix in SUFFIXES else path
    if not stem.parent.is_dir():
        raise InputError(f"there is no directory {stem.parent}; make it first")
    png, svg = stem.with_name(f"{stem.name}.png"), stem.with_name(f"{stem.name}.svg")
    _save_png(figure, png)
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "attnx"}):
        figure.savefig(svg, metadata={"Date": None})
    return png, svg


def _save_png(figure: Figure, path: Path) -> None:
    """In 256 colours, which is all that these figures need: a quarter of the size."""
    from PIL import Image

    drawn = BytesIO()
    figure.savefig(drawn, format="png", dpi=RESOLUTION)
    few = Image.open(drawn).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(path, optimize=True)
