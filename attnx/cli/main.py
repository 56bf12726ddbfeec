"""The command line: `attnx explain "a text"`."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from attnx.errors import AttnxError


def main() -> None:
    """Run the command. What the user can mend is one line on standard error and exit code 2, never a traceback."""
    _open_closed_streams()
    for sequence in (sys.stdout, sys.stderr):
        if isinstance(sequence, io.TextIOWrapper):
            sequence.reconfigure(errors="replace")  # a terminal without Unicode still gets the numbers
    with _stops_noted() as stopped:
        try:
            from attnx.cli.app import app

            try:
                app(prog_name="attnx")  # also by python -m attnx: completion is of that name
            finally:
                _deliver()
        except (AttnxError, OSError) as error:
            _end(stopped, str(error))
        except SystemExit as done:
            if done.code == 130 or stopped:  # typer makes this of Ctrl-C; a library that is imported may swallow it
                _end([signal.SIGINT])
            raise
        except KeyboardInterrupt:
            _end([signal.SIGINT])
        except Exception:
            if not stopped:
                raise
            _end(stopped)  # a library that was being imported made another error of Ctrl-C


def _open_closed_streams() -> None:
    """Let standard streams that the caller has closed lead nowhere. The next file would get their number otherwise, and
    with it all that libraries print."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115, it stays open as long as the process runs


def _deliver() -> None:
    """Write what still waits to be printed. A reader who left, as `head` does, is no mistake; a full disk is one."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python tries once more at its end
        if isinstance(error, BrokenPipeError):
            sys.exit(1)
        raise


def _end(stopped: list[int], message: str = "") -> None:
    from attnx.views import printable

    with suppress(OSError):  # a full disk takes no message either
        print("attnx: stopped" if stopped else f"attnx: {printable(message)}", file=sys.stderr)
    sys.exit(130 if stopped else 2)


@contextmanager
def _stops_noted() -> Iterator[list[int]]:
    """A list that gets every Ctrl-C, which is raised as ever; it stays empty where Ctrl-C is ignored."""
    noted: list[int] = []

    def note(number: int, frame: Any) -> None:
        noted.append(number)
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield noted
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
