"""Where a run is kept: a local folder, or any address that fsspec knows. A file is there whole, or it is not there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from attnx.arguments import path_of
from attnx.errors import AttnxError, InputError, first_line

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
                    return dict(sorted((one.name, _size(one)) for one in entries))
            self._system.invalidate_cache()
            inside = self._inside("")
            if not self._system.exists(inside):
                return {}
            entries = self._system.ls(inside, detail=True)
            return dict(sorted((one["name"].rstrip("/").rpartition("/")[2], one["size"] or 0) for one in entries))

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
