"""What a folder says of the run in it, and which of its parts are there.

The manifest is written when a run begins and when it ends. Between the two a part is done if it stands under its name:
`part-000012-001024-3fa9…-81c2….parquet` is shard 12 with 1,024 rows, then the digest of the shard's input and that of
the file itself. So nothing has to agree with anything when a run is killed, and workers need not speak to each other. A
part with fewer rows than its shard lacks those for which memory was short; the next call runs that shard again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from math import inf
from typing import Any

from attnx.data.fingerprint import differences
from attnx.data.place import TEMPORARY, Place
from attnx.data.row import Shard
from attnx.errors import FileFormatError, InputError
from attnx.results import schema

NAME = "_attnx.json"
FORMAT = 1
_KIND = "attnx run"
_PART = re.compile(r"part-(\d{6,9})-(\d{6,9})-([0-9a-f]{32})-([0-9a-f]{32})\.parquet")
_MOST_THREADS = 1024
"""More than any machine has; with 100,000 of them a process dies."""


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
    size: int | None = None
    """Bytes of all parts together, once they are complete."""
    format: int = FORMAT


@dataclass(frozen=True)
class Part:
    """One finished shard."""

    number: int
    rows: int
    digest: str
    """Of the rows of data, whether or not all of them are in the part."""
    content: str
    """The digest of the file."""
    name: str
    size: int
    """Bytes of the file as it is there."""


def part_name(shard: Shard, rows: int, content: bytes) -> str:
    return f"part-{shard.number:06d}-{rows:06d}-{shard.digest}-{content_digest(content)}.parquet"


def content_digest(content: bytes) -> str:
    return sha256(content).hexdigest()[:32]


def parts(place: Place) -> dict[int, Part]:
    """Those that are there, by the number of their shard; of two for one shard that with more rows."""
    found: dict[int, Part] = {}
    for name, size in place.sizes().items():
        if match := _PART.fullmatch(name):
            part = Part(int(match[1]), int(match[2]), match[3], match[4], name, size)
            other = found.get(part.number, part)
            if other.digest != part.digest:
                raise FileFormatError(f"{place.name} has two parts {part.number}: {other.name}, {name}; delete one")
            found[part.number] = max(other, part, key=lambda one: one.rows)
    return dict(sorted(found.items()))


def is_complete(manifest: Manifest, there: Iterable[Part]) -> bool:
    """Whether the run ended, and its parts have been neither removed nor cut since."""
    whole = [(one.rows, one.size) for one in there]
    return manifest.complete and (sum(rows for rows, _ in whole), sum(size for _, size in whole)) == (
        manifest.rows,
        manifest.size,
    )


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
        if told.pop("sha256") != _checksum(told):
            raise ValueError("its checksum is that of other content, so something in it has changed")
        manifest = schema.read(Manifest, told)
        for name, number, most in (
            ("shard_rows", manifest.shard_rows, inf),
            ("threads", manifest.threads, _MOST_THREADS),
        ):
            if not 1 <= number <= most:
                raise ValueError(f"{name} is {number}")
        if {type(manifest.fingerprint.get(name)) for name in ("settings", "versions")} != {dict}:
            raise ValueError("the fingerprint has no settings or versions")
        return manifest
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FileFormatError(f"{place.name}/{NAME} is no manifest that this attnx reads ({error!s:.100})") from error


def write(place: Place, manifest: Manifest) -> None:
    told = json.loads(json.dumps(asdict(manifest)))
    whole = {"kind": _KIND, **told, "sha256": _checksum(told)}
    place.write(NAME, json.dumps(whole, ensure_ascii=False, indent=1).encode())


def _checksum(told: Mapping[str, Any]) -> str:
    return sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def check_same(place: Place, before: Manifest, now: Manifest) -> None:
    """That the run in a folder is the one that is asked for; else what differs."""
    found = differences(before.fingerprint, now.fingerprint)
    if before.shard_rows != now.shard_rows:
        found.append(f"shard_rows was {before.shard_rows} and is {now.shard_rows}")
    if None not in (before.rows, now.rows) and before.rows != now.rows:
        found.append(f"it was begun over {before.rows:,} rows, and the data has {now.rows:,}")
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
    rows, size = (sum(getattr(one, name) for one in finished.values()) for name in ("rows", "size"))
    return replace(manifest, complete=True, rows=rows, data=whole, size=size)


def tidy(place: Place, finished: Mapping[int, Part]) -> None:
    """Take away what killed runs left half written, and parts in whose place there is a better one."""
    keep = {one.name for one in finished.values()}
    for name in place.names():
        if name.startswith(TEMPORARY) or (_PART.fullmatch(name) and name not in keep):
            place.remove(name)
