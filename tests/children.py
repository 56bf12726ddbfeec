"""Processes that tests start: Ctrl-C reaches each of them, and none is left when its test is over, whatever happens.

A parent that ignores SIGINT, as a shell's `&` and `nohup` do, hands that down. So a Python child sets the handler at
its start by itself. Each child leads a process group, which ends as a whole with the test.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

PATIENCE = 600.0
"""Seconds after which a child that does not answer is an error: far more than any needs, also on a busy machine."""

_HANDLER = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"


def python(code: str, *arguments: str) -> list[str]:
    """The command that runs this code."""
    return [sys.executable, "-c", _HANDLER + textwrap.dedent(code), *arguments]


def attnx_command(*arguments: str) -> list[str]:
    """`attnx` with these arguments, as the tests' interpreter has it."""
    return python("from attnx.cli.main import main; main()", *arguments)


class Children:
    """What one test has started."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[str]] = []

    def start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[str]:
        """Start a child, and leave it to the test what happens next."""
        process = subprocess.Popen(command, text=True, start_new_session=True, **options)
        self._started.append(process)
        return process

    def run(self, command: Sequence[str], text: str | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
        """Start a child, give it a text to read, and wait for its end."""
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        process = self.start(command, **pipes, **options)
        printed, errors = process.communicate(text, timeout=PATIENCE)
        return subprocess.CompletedProcess(process.args, process.returncode, printed, errors)

    def wait_for(self, process: subprocess.Popen[str], condition: Callable[[], bool]) -> None:
        """Until the condition holds; an error if the child ends without it."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            ended = process.poll() is not None
            if condition():
                return
            assert not ended, f"the child ended with {process.returncode} before what was waited for"
            time.sleep(0.01)
        raise AssertionError(f"what was waited for did not come in {PATIENCE:.0f} s")

    def end(self) -> None:
        """Kill what is left, with all that it started itself."""
        for process in self._started:
            with process, suppress(OSError):  # it closes its pipes; most have ended long ago
                os.killpg(process.pid, signal.SIGKILL) if os.name == "posix" else process.kill()
