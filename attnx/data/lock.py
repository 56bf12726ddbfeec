"""One run at a time in a folder: a lock of the system's, which is gone with the process that held it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attnx.data.place import Place
from attnx.errors import AttnxError, InputError

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
