"""How far a run is, whatever it asks: read from its folder while it is being written, or later."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from os import PathLike

from attnx.data import manifest as manifests
from attnx.data.lock import taken
from attnx.data.manifest import Manifest, Part
from attnx.data.part import read_part
from attnx.data.place import Place
from attnx.errors import InputError


@dataclass(frozen=True)
class Failed:
    """A row that could not be explained."""

    row: int
    id: str
    error: str


@dataclass(frozen=True)
class Status:
    """Of one folder."""

    manifest: Manifest
    rows: int
    """Those that are there, failed ones included."""
    parts: int
    complete: bool
    running: bool
    """Whether a process is writing to it at this moment."""
    failed: list[Failed]


def status_of(folder: str | PathLike[str]) -> Status:
    """How far the run in a folder is."""
    place = Place.of(folder)
    found = manifest_of(place)
    parts = list(manifests.parts(place).values())
    failed = list(failed_rows(place, parts, found))
    rows, complete = sum(one.rows for one in parts), manifests.is_complete(found, parts)
    return Status(found, rows, len(parts), complete, taken(place), failed)


def manifest_of(place: Place) -> Manifest:
    """What a folder says of the run in it; one without is an error."""
    found = manifests.read(place)
    if found is None:
        raise InputError(f"there is no run in {place.name}; attnx.explain_dataset(…, output=…) makes one")
    return found


def failed_rows(place: Place, parts: Iterable[Part], manifest: Manifest) -> Iterator[Failed]:
    """Rows that have no answer, and why."""
    for part in parts:
        for one in read_part(place, part, manifest.shard_rows, columns=("row", "id", "error")).to_pylist():
            if one["error"] is not None:
                yield Failed(one["row"], one["id"], one["error"])
