"""The folder of a run: its manifest, and Parquet files that are either whole or absent.

`part-000012-001024-3fa9…-81c2….parquet` is shard 12 with 1,024 rows, then the digest of its input and that of the file
itself. A part under its name is done and nothing else is, so a killed run leaves nothing to reconcile and workers need
not talk to each other. A part with fewer rows than its shard lacks those for which memory was short; the next call runs
that shard again.
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
from typing import Any, Literal
from uuid import uuid4

import torch
from torch import nn

from attnx.arguments import path_of
from attnx.errors import AttnxError, FileFormatError, InputError, first_line
from attnx.results import Result
from attnx.results import storage as schema
from attnx.runs.sources import Shard

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

TEMPORARY = "_unfinished-"
"""How names of files begin that are being written; readers of Parquet folders ignore names with `_`."""
MANIFEST, _LOCK = "_attnx.json", "_lock"
_KIND, FORMAT = "attnx run", 2
_PART = re.compile(r"part-(\d{6,9})-(\d{6,9})-([0-9a-f]{32})-([0-9a-f]{32})\.parquet")
_MOST_THREADS = 1024
"""More than any machine has; with 100,000 of them a process dies."""


@dataclass(frozen=True)
class RunDir:
    """A folder, or an address that fsspec knows (`s3://bucket/run`)."""

    name: str
    remote: bool = False

    @classmethod
    def of(cls, run_dir: str | PathLike[str]) -> RunDir:
        name = path_of(run_dir, "folder")
        return cls(name.rstrip("/"), True) if "://" in name else cls(str(Path(name).expanduser().absolute()))

    def make(self) -> None:
        with self._errors("make"):
            if self._system.isfile(self._path()):
                raise InputError(f"{self.name} is a file; give the name of a folder: run_dir='run/'")
            self._system.makedirs(self._path(), exist_ok=True)

    def sizes(self) -> dict[str, int]:
        """The names in it, sorted, each with its size in bytes."""
        with self._errors("read"):
            self._system.invalidate_cache()
            if not self._system.isdir(self._path()):
                return {}
            listed = self._system.ls(self._path(), detail=True)
            return dict(sorted((entry["name"].rstrip("/").rpartition("/")[2], entry["size"] or 0) for entry in listed))

    def read(self, name: str) -> bytes:
        with self._errors("read"):
            return bytes(self._system.cat_file(self._path(name)))

    def write(self, name: str, content: bytes) -> None:
        """Under another name first, synced, then renamed: who reads `name` finds all of it or nothing."""
        other = f"{TEMPORARY}{uuid4().hex}-{name}"
        with self._errors(f"write {name} to"):
            try:
                if self.remote:
                    self._system.pipe_file(self._path(other), content)
                    self._system.mv(self._path(other), self._path(name))
                else:
                    self._write_local(Path(self.name), other, name, content)
            except BaseException:
                with suppress(Exception):
                    self.remove(other)
                raise

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._system.rm_file(self._path(name))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Refuse a second run until the block is left. Remote folders and systems without locks have none."""
        if self.remote or fcntl is None:
            yield
            return
        try:
            file = (Path(self.name) / _LOCK).open("ab")
        except OSError as error:
            raise AttnxError(f"cannot write to {self.name}: {error.strerror}; give a folder of your own") from error
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    f"another run is writing to {self.name}; wait for it, or give another folder"
                ) from None
            except OSError:  # a file system without locks
                pass
            yield

    def is_locked(self) -> bool:
        """Whether a run is writing to it at this moment."""
        path = Path(self.name) / _LOCK
        if self.remote or fcntl is None or not path.is_file():
            return False
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return True
        return False

    @staticmethod
    def _write_local(folder: Path, other: str, name: str, content: bytes) -> None:
        with (folder / other).open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(folder / other, folder / name)  # noqa: PTH105
        with suppress(OSError, AttributeError):  # the rename itself; some systems have no such call
            handle = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    @property
    def _system(self) -> Any:
        import fsspec

        return fsspec.core.url_to_fs(self.name)[0] if self.remote else fsspec.filesystem("file")

    def _path(self, name: str = "") -> str:
        """As the file system takes it."""
        import fsspec

        folder = fsspec.core.url_to_fs(self.name)[1] if self.remote else self.name
        return f"{folder.rstrip('/')}/{name}".rstrip("/")

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except (OSError, ImportError, ValueError) as error:
            if isinstance(error, AttnxError):
                raise
            reason = getattr(error, "strerror", None) or first_line(error)
            raise AttnxError(
                f"cannot {what} {self.name}: {reason}; fix that, and the same command resumes the run"
            ) from error


VERSIONS = ("attnx", "torch", "transformers", "tokenizers", "numpy")
_NAMES = ("_name_or_path", "name_or_path", "transformers_version")
"""Of a config: what it is called, and who wrote it."""
_DIFFERENT = {
    "model": "other weights",
    "config": "another config of the model",
    "attention": "another implementation of attention",
    "tokenizer": "another tokenizer",
}


def fingerprint(model: nn.Module, processor: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Plain values. Two runs may share a folder only where all of them are the same."""
    config: Any = model.config
    return {
        "model": weights_digest(model),
        "config": _digest(_without_names(config.to_dict())),
        "attention": str(getattr(config, "_attn_implementation", None)),
        "tokenizer": _digest(_processor(processor)),
        "settings": dict(settings),
        "versions": {name: version(name) for name in VERSIONS},
    }


def weights_digest(model: nn.Module) -> str:
    """A hash of the weights: the name of a checkpoint does not show whether it was trained on since."""
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
        return {str(name): as_setting(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_setting(member) for member in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)


def _processor(processor: Any) -> Any:
    """How a tokenizer or an image processor reads, whatever file it came from."""
    backend = getattr(processor, "backend_tokenizer", None)
    if backend is not None:
        return json.loads(backend.to_str())
    if hasattr(processor, "get_vocab"):
        return [type(processor).__name__, processor.get_vocab()]
    return _without_names(processor.to_dict()) if hasattr(processor, "to_dict") else type(processor).__name__


def _digest(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True, default=repr).encode()).hexdigest()


def _without_names(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in _NAMES}


@dataclass(frozen=True)
class Manifest:
    """What a folder records of its run. It is written when the first row is done, and when the run ends."""

    task: str
    """The name of the task: "explanations", "comparison", …"""
    shard_rows: int
    """Rows of a shard, or the most that a growing one reaches."""
    fingerprint: Mapping[str, Any]
    source: str
    rows: int | None = None
    """How many the data has, where that is known."""
    sizes: Literal["fixed", "growing", "grown"] = "fixed"
    """Whether shards all have `shard_rows`, or double from one row up to it, once it is known."""
    threads: int = 1
    """With which the first process ran: sums of floating numbers depend on it, so all others use the same."""
    layout: Mapping[str, Any] = field(default_factory=dict)
    """The columns of the parts, and what the first rows decided for all of them."""
    complete: bool = False
    data: str | None = None
    """A digest of all rows, once they were all read."""
    size: int | None = None
    """Bytes of all parts together, once they are complete."""
    format: int = FORMAT

    def size_at(self, row: int) -> int:
        """Rows of the shard that begins at a row: growing ones are row 0, row 1, rows 2 and 3, 4 to 7, …"""
        return self.shard_rows if self.sizes == "fixed" else min(max(1, row), self.shard_rows)

    def shard_of(self, row: int) -> int:
        """The number of the shard that holds a row. Where shards grow, `shard_rows` is a power of two."""
        if self.sizes == "fixed":
            return row // self.shard_rows
        if row < self.shard_rows:
            return row.bit_length()
        return row // self.shard_rows + self.shard_rows.bit_length() - 1


@dataclass(frozen=True)
class Part:
    """The file of a finished shard, as its name tells it."""

    number: int
    rows: int
    digest: str
    """Of the shard's input, whether or not all of its rows are in the part."""
    content: str
    """The digest of the file."""
    name: str
    size: int
    """Bytes of the file as it is now."""


def part_name(shard: Shard, rows: int, content: bytes) -> str:
    return f"part-{shard.number:06d}-{rows:06d}-{shard.digest}-{content_digest(content)}.parquet"


def content_digest(content: bytes) -> str:
    return sha256(content).hexdigest()[:32]


def parts(run_dir: RunDir) -> dict[int, Part]:
    """The finished parts by the number of their shard; of two for one shard that with more rows."""
    finished: dict[int, Part] = {}
    for name, size in run_dir.sizes().items():
        if match := _PART.fullmatch(name):
            part = Part(int(match[1]), int(match[2]), match[3], match[4], name, size)
            other = finished.get(part.number, part)
            if other.digest != part.digest:
                raise FileFormatError(f"{run_dir.name} has two parts {part.number}: {other.name}, {name}; delete one")
            finished[part.number] = max(other, part, key=lambda part: part.rows)
    return dict(sorted(finished.items()))


def is_complete(manifest: Manifest, finished: Iterable[Part]) -> bool:
    """Whether the run ended, and its parts have been neither removed nor cut since."""
    counted = [(part.rows, part.size) for part in finished]
    rows, size = sum(rows for rows, _ in counted), sum(size for _, size in counted)
    return manifest.complete and (rows, size) == (manifest.rows, manifest.size)


def completed(manifest: Manifest, finished: Mapping[int, Part]) -> Manifest:
    """The manifest of a run whose every row is done."""
    digest = sha256("".join(part.digest for part in finished.values()).encode()).hexdigest()
    rows, size = (sum(getattr(part, name) for part in finished.values()) for name in ("rows", "size"))
    return replace(manifest, complete=True, rows=rows, data=digest, size=size)


def read_manifest(run_dir: RunDir) -> Manifest | None:
    """None where no run has begun. A folder of something else is an error."""
    names = run_dir.sizes()
    if MANIFEST not in names:
        strange = [name for name in names if not name.startswith((".", _LOCK, TEMPORARY))]
        if strange:
            raise InputError(
                f"{run_dir.name} holds no run of attnx, but {', '.join(strange[:3])}{', …' * (len(strange) > 3)}; give "
                "a new or an empty folder, and nothing is overwritten"
            )
        return None
    try:
        content = json.loads(run_dir.read(MANIFEST))
        if content.pop("kind") != _KIND or content["format"] != FORMAT:
            raise ValueError(f"format {content.get('format')}, this attnx reads {FORMAT}")
        if content.pop("sha256") != _checksum(content):
            raise ValueError("its checksum is that of other content, so something in it has changed")
        manifest = schema.read(Manifest, content)
        for name, most in (("shard_rows", inf), ("threads", _MOST_THREADS)):
            if not 1 <= getattr(manifest, name) <= most:
                raise ValueError(f"{name} is {getattr(manifest, name)}")
        if {type(manifest.fingerprint.get(name)) for name in ("settings", "versions")} != {dict}:
            raise ValueError("the fingerprint has no settings or versions")
        return manifest
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FileFormatError(
            f"{run_dir.name}/{MANIFEST} is no manifest that this attnx reads ({error!s:.100})"
        ) from error


def existing_manifest(run_dir: RunDir) -> Manifest:
    """The manifest of a folder that must hold a run."""
    manifest = read_manifest(run_dir)
    if manifest is None:
        raise InputError(f"there is no run in {run_dir.name}; attnx.explain_dataset(…, run_dir=…) makes one")
    return manifest


def write_manifest(run_dir: RunDir, manifest: Manifest) -> None:
    content = json.loads(json.dumps(asdict(manifest)))
    run_dir.write(
        MANIFEST,
        json.dumps({"kind": _KIND, **content, "sha256": _checksum(content)}, ensure_ascii=False, indent=1).encode(),
    )


def _checksum(content: Mapping[str, Any]) -> str:
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def check_same(run_dir: RunDir, before: Manifest, now: Manifest) -> None:
    """That the run in a folder is the one that is wanted; else what differs."""
    names = [words for name, words in _DIFFERENT.items() if before.fingerprint.get(name) != now.fingerprint.get(name)]
    for name, noun in (("settings", ""), ("versions", "version of ")):
        old, new = before.fingerprint[name], now.fingerprint[name]
        names += [
            f"{noun}{setting} was {_in_words(old.get(setting))} and is {_in_words(new.get(setting))}"
            for setting in sorted({*old, *new})
            if old.get(setting) != new.get(setting)
        ]
    if before.shard_rows != now.shard_rows:
        names.append(f"shard_rows was {before.shard_rows} and is {now.shard_rows}")
    if None not in (before.rows, now.rows) and before.rows != now.rows:
        names.append(f"it was begun over {before.rows:,} rows, and the data has {now.rows:,}")
    if before.task != now.task:
        names = [f"it is a run of {before.task}, and {now.task} was requested"]
    if names:
        raise InputError(f"{run_dir.name} holds another run: {'; '.join(names)}. Give another folder, or delete it")


def _in_words(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else "not set" if value is None else str(value)


def tidy(run_dir: RunDir, finished: Mapping[int, Part]) -> None:
    """Remove what killed runs left half written, and parts that a better one replaced."""
    keep = {part.name for part in finished.values()}
    for name in run_dir.sizes():
        if name.startswith(TEMPORARY) or (_PART.fullmatch(name) and name not in keep):
            run_dir.remove(name)
