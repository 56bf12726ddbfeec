"""The suite over the cores: a worker on each, and none where a part of it is looked at.

pytest-xdist asks here how many (`-n auto` in pyproject.toml; any other number insists). A worker that is told to end
ends its tests' children first. So a run that is interrupted tells its workers, before pytest-xdist kills them; Ctrl-C
in a terminal would reach them as well and break into that, and does not: each leads a session of its own.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

SUITE = Path(__file__).parent


def number(config: pytest.Config) -> int | None:
    """None for as many as there are cores, or 0: to start them costs more than they bring to a few files, and what is
    debugged or prints as it goes needs the terminal."""
    needs_terminal = config.getoption("trace") or config.getoption("capture") == "no"
    whole = any(Path(name).resolve() == SUITE for name in config.args)
    return None if whole and not needs_terminal else 0


class Workers:
    """The processes that pytest-xdist has started, as a plug-in of pytest in each of them and in their parent."""

    def __init__(self) -> None:
        self._processes: dict[str, int] = {}

    def pytest_configure(self, config: pytest.Config) -> None:
        if hasattr(config, "workerinput") and os.name == "posix":
            os.setsid()

    def pytest_xdist_newgateway(self, gateway: Any) -> None:
        self._processes[gateway.id] = gateway._rinfo().pid

    def pytest_testnodedown(self, node: Any) -> None:
        self._processes.pop(node.gateway.id, None)

    def pytest_keyboard_interrupt(self) -> None:
        """Ctrl-C, SIGTERM, or a failure after which the run shall stop."""
        for process in self._processes.values():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGTERM)
