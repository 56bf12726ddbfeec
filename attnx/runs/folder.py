"""What a folder says of the run in it, and which of its parts are there.

The manifest is written when a run begins and when it ends. Between the two a part is done if it stands under its name:
`part-000012-001024-3fa9…-81c2….parquet` is shard 12 with 1,024 rows, then the digest of the shard's input and that of
the file itself. So nothing has to agree with anything when a run is killed, and workers need not speak to each other. A
part with fewer rows than its shard lacks those for which memory was short; the next call runs that shard again.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from importlib.metadata import version
from math import inf
from os import PathLike
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import torch
from torch import nn

from attnx.arguments import path_of
from attnx.errors import AttnxError, FileFormatError, InputError, first_line
from attnx.results import Result
from attnx.results import storage as schema
from attnx.runs.sources import Shard

TEMPORARY = "_unfinished-"
"""How names begin of files that are being written; readers of Parquet folders leave names with `_` alone."""


@dataclass(frozen=True)
class Place:
    """A folder."""

    name: str
    remote: bool = False
    """Whether it is an address, `s3://bucket/run`, and no path."""

    @classmethod
    def of(cls, output: str | PathLike[str]) -> Place:
        name = path_of(output, "folder")
        if "://" in name:
            return cls(name.rstrip("/"), remote=True)
        return cls(str(Path(name).expanduser().absolute()))

    def make(self) -> None:
        """The folder itself."""
        with self._said("make"):
            if self.remote:
                self._system.makedirs(self._inside(""), exist_ok=True)
            else:
                if Path(self.name).exists() and not Path(self.name).is_dir():
                    raise InputError(f"{self.name} is a file; give the name of a folder: output='run/'")
                Path(self.name).mkdir(parents=True, exist_ok=True)

    def names(self) -> list[str]:
        """What is in it, in the order of names."""
        return list(self.sizes())

    def sizes(self) -> dict[str, int]:
        """The names in it, in their order, each with its size in bytes."""
        with self._said("read"):
            if not self.remote:
                if not Path(self.name).is_dir():
                    return {}
                with os.scandir(self.name) as entries:
                    return dict(sorted((entry.name, _size(entry)) for entry in entries))
            self._system.invalidate_cache()
            inside = self._inside("")
            if not self._system.exists(inside):
                return {}
            entries = self._system.ls(inside, detail=True)
            return dict(sorted((entry["name"].rstrip("/").rpartition("/")[2], entry["size"] or 0) for entry in entries))

    def read(self, name: str) -> bytes:
        with self._said("read"), self.opened(name) as file:
            return bytes(file.read())

    def opened(self, name: str) -> IO[bytes]:
        """A file to read from."""
        if self.remote:
            opened: IO[bytes] = self._system.open(self._inside(name), "rb")
            return opened
        return (Path(self.name) / name).open("rb")

    def write(self, name: str, content: bytes) -> None:
        """Under another name first, then seen on the disk, then renamed: who reads `name` finds all of it or nothing.

        What is left of a write that failed is taken away.
        """
        other = f"{TEMPORARY}{uuid4().hex}-{name}"
        with self._said(f"write {name} to"):
            try:
                if self.remote:
                    self._system.pipe_file(self._inside(other), content)
                    self._system.mv(self._inside(other), self._inside(name))
                else:
                    self._write_here(Path(self.name), other, name, content)
            except BaseException:
                with suppress(Exception):
                    self.remove(other)
                raise

    def remove(self, name: str) -> None:
        if self.remote:
            self._system.rm_file(self._inside(name))
        else:
            (Path(self.name) / name).unlink(missing_ok=True)

    @staticmethod
    def _write_here(folder: Path, other: str, name: str, content: bytes) -> None:
        with (folder / other).open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(folder / other, folder / name)  # noqa: PTH105
        with suppress(OSError, AttributeError):  # that it is there under its name; some systems have no such call
            handle = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    @property
    def _system(self) -> Any:
        import fsspec

        return fsspec.core.url_to_fs(self.name)[0]

    def _inside(self, name: str) -> str:
        import fsspec

        inside: str = fsspec.core.url_to_fs(self.name)[1]
        return f"{inside.rstrip('/')}/{name}".rstrip("/")

    @contextmanager
    def _said(self, what: str) -> Iterator[None]:
        """Whatever the system has against it, in a line with what to do."""
        try:
            yield
        except AttnxError:
            raise
        except (OSError, ImportError, ValueError) as error:
            reason = getattr(error, "strerror", None) or first_line(error)
            raise AttnxError(
                f"cannot {what} {self.name}: {reason}; mend that, and the same command goes on where it was"
            ) from error


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat().st_size
    except OSError:  # what another process was writing a moment ago has got its name meanwhile
        return 0


try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

_NAME = "_lock"


@contextmanager
def alone(place: Place) -> Iterator[None]:
    """Held until the block is left. Remote folders, and systems without locks, have none: see docs/data-sets.md."""
    if place.remote or fcntl is None:
        yield
        return
    try:
        file = (Path(place.name) / _NAME).open("ab")
    except OSError as error:
        raise AttnxError(f"cannot write to {place.name}: {error.strerror}; give a folder of your own") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"another run is writing to {place.name}; wait for it, or give another folder") from None
        except OSError:  # a file system without locks
            pass
        yield


def taken(place: Place) -> bool:
    """Whether a run is writing there at this moment."""
    path = Path(place.name) / _NAME
    if place.remote or fcntl is None or not path.is_file():
        return False
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


VERSIONS = ("attnx", "torch", "transformers", "tokenizers", "numpy")
_NOT_NUMBERS = ("_name_or_path", "name_or_path", "transformers_version")
"""Of a config: what it is called, and who wrote it."""


def fingerprint(model: nn.Module, processor: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Plain values. Two runs may share a folder only where all of them are the same."""
    return {
        "model": weights_digest(model),
        "config": _digest(_without(model.config.to_dict(), _NOT_NUMBERS)),  # type: ignore[operator, union-attr]
        "attention": str(getattr(model.config, "_attn_implementation", None)),
        "tokenizer": _digest(_processor(processor)),
        "settings": dict(settings),
        "versions": {name: version(name) for name in VERSIONS},
    }


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What is not the same, each in words."""
    names = [said for part, said in _SAID.items() if before.get(part) != now.get(part)]
    for part, noun in (("settings", ""), ("versions", "version of ")):
        old, new = before.get(part, {}), now.get(part, {})
        names += [
            f"{noun}{name} was {_told(old.get(name))} and is {_told(new.get(name))}"
            for name in sorted({*old, *new})
            if old.get(name) != new.get(name)
        ]
    return names


_SAID = {
    "model": "other weights",
    "config": "another config of the model",
    "attention": "another implementation of attention",
    "tokenizer": "another tokenizer",
}


def weights_digest(model: nn.Module) -> str:
    """A hash of the weights: the name of a checkpoint does not tell whether it was trained on since."""
    digest = sha256(type(model).__name__.encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        if tensor.device.type != "meta":
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def as_setting(value: Any) -> Any:
    """An option as a manifest keeps it."""
    if isinstance(value, Result):
        return f"{value.kind} {sha256(value.to_json().encode()).hexdigest()}"
    if isinstance(value, Mapping):
        return {str(name): as_setting(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_setting(one) for one in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)


def _processor(processor: Any) -> Any:
    """How a tokenizer or an image processor reads, whatever file it came from."""
    backend = getattr(processor, "backend_tokenizer", None)
    if backend is not None:
        return json.loads(backend.to_str())
    if hasattr(processor, "get_vocab"):
        return [type(processor).__name__, processor.get_vocab()]
    return _without(processor.to_dict(), _NOT_NUMBERS) if hasattr(processor, "to_dict") else type(processor).__name__


def _digest(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True, default=repr).encode()).hexdigest()


def _without(values: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}


def _told(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else "not given" if value is None else str(value)


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
    whole = [(part.rows, part.size) for part in there]
    return manifest.complete and (sum(rows for rows, _ in whole), sum(size for _, size in whole)) == (
        manifest.rows,
        manifest.size,
    )


def read(place: Place) -> Manifest | None:
    """What is there; None where no run has begun. A folder of something else is an error."""
    there = place.names()
    if NAME not in there:
        strange = [name for name in there if not name.startswith((".", "_lock", TEMPORARY))]
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
    names = differences(before.fingerprint, now.fingerprint)
    if before.shard_rows != now.shard_rows:
        names.append(f"shard_rows was {before.shard_rows} and is {now.shard_rows}")
    if None not in (before.rows, now.rows) and before.rows != now.rows:
        names.append(f"it was begun over {before.rows:,} rows, and the data has {now.rows:,}")
    if before.question != now.question:
        names = [f"it is a run of {before.question}, and {now.question} is asked for"]
    if names:
        raise InputError(f"{place.name} holds another run: {'; '.join(names)}. Give another folder, or delete it")


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
    whole = sha256("".join(part.digest for part in finished.values()).encode()).hexdigest()
    rows, size = (sum(getattr(part, name) for part in finished.values()) for name in ("rows", "size"))
    return replace(manifest, complete=True, rows=rows, data=whole, size=size)


def tidy(place: Place, finished: Mapping[int, Part]) -> None:
    """Take away what killed runs left half written, and parts in whose place there is a better one."""
    keep = {part.name for part in finished.values()}
    for name in place.names():
        if name.startswith(TEMPORARY) or (_PART.fullmatch(name) and name not in keep):
            place.remove(name)
