"""One input of a data set, with its place there, and shards of them: the same rows always make the same shards."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from itertools import islice
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import torch

from attnx.errors import escaped, in_a_line

MOST_ROWS = 1024
"""Of a shard, where nobody chose its size."""


@dataclass(frozen=True)
class DataRow:
    """What `explain` takes, or why there is nothing to take."""

    number: int
    """Its place in the data, from 0."""
    id: str
    """What the data calls it; where that has no name for it, its number or its line."""
    given: Any = None
    gold: str | None = None
    """The label that the data has for it."""
    problem: str = ""
    """Why it could not be read; the run goes on without it."""

    @cached_property
    def sha256(self) -> str:
        """Of what is explained, be it a text, a pair, or the content of an image."""
        return str(_digest(self.given).hexdigest())


@dataclass(frozen=True)
class Shard:
    """A fixed range of rows."""

    number: int
    rows: Sequence[DataRow]

    @cached_property
    def digest(self) -> str:
        """Of all that is in it: another row, another label, and it is another shard."""
        whole = sha256()
        for row in self.rows:
            whole.update(json.dumps([row.number, row.id, row.sha256, row.gold, row.problem]).encode())
        return whole.hexdigest()[:32]


def shards(rows: Iterable[DataRow], size: int) -> Iterator[Shard]:
    """The rows by ranges of `size`; no more of them are held than one range."""
    waiting = iter(rows)
    number = 0
    while some := [_storable(row) for row in islice(waiting, size)]:
        yield Shard(number, some)
        number += 1


def _storable(row: DataRow) -> DataRow:
    """The row, or one that says why it cannot be kept: it has no digest, or a name or label that is no UTF-8."""
    told = {name: escaped(getattr(row, name) or "") for name in ("id", "gold", "problem")}
    broken = [name for name, text in told.items() if text != (getattr(row, name) or "")]
    if broken:
        problem = (
            told["problem"]
            or f"its {'label' if broken[0] == 'gold' else broken[0]} is not valid UTF-8: {told[broken[0]]}"
        )
        row = replace(row, id=told["id"], gold=told["gold"] or None, problem=problem)
    try:
        row.sha256  # noqa: B018 (it is kept)
    except Exception as error:  # a list that contains itself, keys that cannot be sorted
        return replace(row, given=None, problem=f"this row cannot be hashed ({in_a_line(error)})")
    return row


def _digest(given: Any) -> Any:
    if isinstance(given, str):
        return sha256(given.encode("utf-8", "surrogatepass"))
    content = _content(given)
    if content is not None:
        return sha256(content)
    return sha256(json.dumps(given, default=_told, sort_keys=True).encode())


def _content(given: Any) -> bytes | None:
    """All of it that is no plain value: a picture, numbers, a file; None for what is told otherwise."""
    if isinstance(given, PathLike):  # of an image its content, so that another picture of this name is another row
        path = Path(fspath(given))
        try:
            return path.read_bytes()
        except OSError:  # told where it is explained
            return str(path).encode()
    if isinstance(given, torch.Tensor):
        plain: bytes = given.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        return f"{tuple(given.shape)} {given.dtype}".encode() + plain
    if hasattr(given, "tobytes") and hasattr(given, "size"):  # a PIL image, an array
        return f"{given.size} {getattr(given, 'mode', '')}".encode() + bytes(given.tobytes())
    own = getattr(given, "digest", None)  # what was prepared before tells it by itself
    return own.encode() if isinstance(own, str) else None


def _told(one: Any) -> Any:
    """What JSON has no word for: by all of its content, for the words that print it are cut, or name its place."""
    content = _content(one)
    if content is not None:
        return sha256(content).hexdigest()
    return dict(one) if isinstance(one, Mapping) else repr(one)
