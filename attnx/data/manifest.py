"""What a folder says of the run in it, and which of its parts are there.

The manifest is written when a run begins and when it ends. Between the two a part is done if it stands under its name:
`part-000012-001024-3fa9….parquet` is shard 12 of 1,024 rows, whose digest follows. So nothing has to agree with
anything when a run is killed, and workers need not speak to each other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from typing import Any

from attnx.data.fingerprint import differences
from attnx.data.place import TEMPORARY, Place
from attnx.data.row import Shard
from attnx.errors import FileFormatError, InputError

NAME = "_attnx.json"
FORMAT = 1
_KIND = "attnx run"
_PART = re.compile(r"part-(\d{6,})-(\d{6,})-([0-9a-f]{32})\.\w+")


@dataclass(frozen=True)
class Manifest:
    """Of one run."""

    question: str
    """What is asked of the data: "explanations", "comparison", …"""
    shard_rows: int
    fingerprint: Mapping[str, Any]
    source: str
    rows: int | None = None
    """How many the data has, where that is known."""
    threads: int = 1
    """With which the first process ran: sums of floating numbers depend on it, so all others take it over."""
    layout: Mapping[str, Any] = field(default_factory=dict)
    """What the first rows told of all: columns, settings as used."""
    complete: bool = False
    data: str | None = None
    """A digest of all rows, once they were all read."""
    format: int = FORMAT


@dataclass(frozen=True)
class Part:
    """One finished shard."""

    number: int
    rows: int
    digest: str
    name: str


def part_name(shard: Shard) -> str:
    return f"part-{shard.number:06d}-{len(shard.rows):06d}-{shard.digest}.parquet"


def parts(place: Place) -> dict[int, Part]:
    """Those that are there, by the number of their shard."""
    found: dict[int, Part] = {}
    for name in place.names():
        if match := _PART.fullmatch(name):
            number = int(match[1])
            if number in found:
                raise FileFormatError(f"{place.name} has two parts {number}: {found[number].name}, {name}; delete one")
            found[number] = Part(number, int(match[2]), match[3], name)
    return dict(sorted(found.items()))


def read(place: Place) -> Manifest | None:
    """What is there; None where no run has begun. A folder of something else is an error."""
    there = place.names()
    if NAME not in there:
        strange = [one for one in there if not one.startswith((".", "_lock", TEMPORARY))]
        if strange:
            raise InputError(
                f"{place.name} holds no run of attnx, but {', '.join(strange[:3])}{', …' * (len(strange) > 3)}; give a "
                "new or an empty folder, and nothing is overwritten"
            )
        return None
    try:
        told = json.loads(place.read(NAME))
        if told.pop("kind") != _KIND or told["format"] != FORMAT:
            raise ValueError(f"format {told.get('format')}, this attnx reads {FORMAT}")
        return Manifest(**told)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FileFormatError(f"{place.name}/{NAME} is no manifest that this attnx reads ({error!s:.100})") from error


def write(place: Place, manifest: Manifest) -> None:
    place.write(NAME, json.dumps({"kind": _KIND, **asdict(manifest)}, ensure_ascii=False, indent=1).encode())


def check_same(place: Place, before: Manifest, now: Manifest) -> None:
    """That the run in a folder is the one that is asked for; else what differs."""
    found = differences(before.fingerprint, now.fingerprint)
    if before.shard_rows != now.shard_rows:
        found.append(f"shard_rows was {before.shard_rows} and is {now.shard_rows}")
    if before.question != now.question:
        found = [f"it is a run of {before.question}, and {now.question} is asked for"]
    if found:
        raise InputError(f"{place.name} holds another run: {'; '.join(found)}. Give another folder, or delete it")


def check_part(place: Place, part: Part, shard: Shard) -> None:
    """That a finished part is of these very rows."""
    if part.digest != shard.digest:
        first = shard.rows[0].number
        raise InputError(
            f"{place.name} holds a run over other data: rows {first:,} to {shard.rows[-1].number:,} are not those that "
            f"were run ({part.rows:,} rows then, {len(shard.rows):,} now). Give another folder, or delete it"
        )


def completed(manifest: Manifest, finished: Mapping[int, Part]) -> Manifest:
    """The manifest of a run whose every row was read."""
    whole = sha256("".join(one.digest for one in finished.values()).encode()).hexdigest()
    return replace(manifest, complete=True, rows=sum(one.rows for one in finished.values()), data=whole)


def tidy(place: Place) -> None:
    """Take away what killed runs left half written."""
    for name in place.names():
        if name.startswith(TEMPORARY):
            place.remove(name)
