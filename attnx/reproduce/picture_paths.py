"""Where a figure is written, known before it is drawn."""

from __future__ import annotations

from pathlib import Path

from attnx.arguments import FIGURES, file_of
from attnx.errors import InputError


def picture_paths(path: Path) -> tuple[Path, ...]:
    """The files that a figure of this name is written to: what its end says, or without one a .png and a .svg."""
    paths = (path,) if path.suffix else tuple(path.with_name(path.name + suffix) for suffix in (".png", ".svg"))
    for one in paths:
        file_of(one, FIGURES, "a figure")
        if not one.parent.is_dir():
            raise InputError(f"there is no directory {one.parent}; make it first")
        if one.is_dir():
            raise InputError(f"{one} is a directory; give the name of a file in it")
    return paths
