"""The entry point of the command line: errors in one line, Ctrl-C, closed streams."""

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
    """Run the command. An error that the user can fix is one line on standard error and exit code 2, no traceback."""
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Unicode still gets the numbers
    with _interrupts() as interrupts:
        try:
            from attnx.cli.app import app

            try:
                app(prog_name="attnx")  # also by python -m attnx: completion is for that name
            finally:
                _flush_output()
        except (AttnxError, OSError) as error:
            _exit(interrupts, str(error))
        except SystemExit as end:
            if end.code == 130 or interrupts:  # typer makes this of Ctrl-C; a library that is imported may swallow it
                _exit([signal.SIGINT])
            raise
        except KeyboardInterrupt:
            _exit([signal.SIGINT])
        except Exception:
            if not interrupts:
                raise
            _exit(interrupts)  # a library that was being imported made another error of Ctrl-C


def _open_closed_streams() -> None:
    """Connect standard streams that the caller has closed to nothing: the next file would get their number otherwise,
    and with it everything that libraries print."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115, it stays open as long as the process runs


def _flush_output() -> None:
    """Print what is buffered. A reader that is gone, as `head` is, is no error; a full disk is one."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes again at its end
        if isinstance(error, BrokenPipeError):
            sys.exit(1)
        raise


def _exit(interrupts: list[int], message: str = "") -> None:
    with suppress(OSError):  # a full disk takes no message either
        if interrupts:
            print("attnx: stopped", file=sys.stderr)
        else:
            from attnx.views import printable

            print(f"attnx: {printable(message)}", file=sys.stderr)
    sys.exit(130 if interrupts else 2)


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """A list to which every Ctrl-C is added, which is raised as ever; it stays empty where Ctrl-C is ignored."""
    interrupts: list[int] = []

    def record(number: int, frame: Any) -> None:
        interrupts.append(number)
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield interrupts
        return
    signal.signal(signal.SIGINT, record)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
