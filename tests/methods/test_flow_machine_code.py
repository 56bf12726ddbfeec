"""Machine code from disk is run: it is read only where nobody else can have written it, and leaves nothing behind."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from attnx.methods import flow_compile as machine_code

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="owners and permissions as on Unix")


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A file of code in a directory of our own."""
    path = tmp_path / "cache" / "flow.o"
    assert machine_code._write(path, "solve", b"code")
    assert machine_code._read(path) == ("solve", b"code")
    return path


def test_a_link_is_not_followed(kept: Path) -> None:
    link = kept.with_name("link.o")
    link.symlink_to(kept)
    assert machine_code._read(link) is None


def test_what_is_checked_is_what_is_read(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path is swapped for another file after it was opened: the open one is what counts."""
    other = kept.with_name("other.o")
    assert machine_code._write(other, "solve", b"evil")
    other.chmod(0o666)
    fstat = os.fstat

    def swapped(descriptor: int) -> os.stat_result:
        if other.exists():
            other.replace(kept)
        return fstat(descriptor)

    monkeypatch.setattr(machine_code.os, "fstat", swapped)
    assert machine_code._read(kept) == ("solve", b"code")
    assert machine_code._read(kept) is None


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_directory_that_others_can_write_is_not_used(kept: Path, mode: int) -> None:
    kept.parent.chmod(mode)
    assert machine_code._read(kept) is None
    assert not machine_code._write(kept.with_name("new.o"), "solve", b"code")
    assert [one.name for one in kept.parent.iterdir()] == ["flow.o"]


def test_a_new_directory_is_the_users_own(kept: Path) -> None:
    assert kept.parent.stat().st_mode & 0o777 == 0o700


def test_a_failed_write_leaves_no_file(tmp_path: Path) -> None:
    target = tmp_path / "flow.o"
    target.mkdir()
    (target / "in the way").touch()
    assert not machine_code._write(target, "solve", b"code")
    assert [one.name for one in tmp_path.iterdir()] == ["flow.o"]


def test_ctrl_c_in_a_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Path, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        machine_code._write(tmp_path / "flow.o", "solve", b"code")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("home", ["~/.cache", "cache", "."])
def test_relative_directories_are_left_out(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a home directory Python leaves the `~` as it is."""
    monkeypatch.setattr(os.path, "expanduser", lambda path: home)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert list(machine_code.directories()) == [Path(machine_code.__file__).parent / "__pycache__"]
    monkeypatch.setenv("XDG_CACHE_HOME", home)
    assert list(machine_code.directories()) == [Path(machine_code.__file__).parent / "__pycache__"]
