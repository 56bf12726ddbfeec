"""Images in a folder: a row for each file, by name; where they stand in folders of their own, these are the labels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from attnx.data.row import DataRow
from attnx.errors import InputError
from attnx.inputs.picture import SUFFIXES


def picture_rows(folder: Path) -> Iterator[DataRow]:
    """A picture that cannot be read is found out where it is explained."""
    for number, path in enumerate(picture_files(folder)):
        inside = path.relative_to(folder)
        yield DataRow(number, inside.as_posix(), path, inside.parts[0] if len(inside.parts) > 1 else None)


def picture_files(folder: Path) -> list[Path]:
    """All that are called like an image, in the folder and below it, in the order of their names."""
    found = sorted(one for one in folder.rglob("*") if one.suffix.lower() in SUFFIXES and one.is_file())
    if not found:
        there = ", ".join(sorted(one.name for one in folder.iterdir())[:3])
        raise InputError(
            f"the folder {folder} has no images in it ({there or 'nothing'}); give a file of texts, a folder of images "
            f"({', '.join(SUFFIXES[:4])}, …), or what datasets.load_from_disk makes of it"
        )
    return found
