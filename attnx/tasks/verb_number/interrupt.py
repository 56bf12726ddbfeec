"""Ctrl-C between two steps: it is noted when it comes, and answered when there is a whole state to save."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def interrupts_noted() -> Iterator[Callable[[], bool]]:
    """Inside the block the first Ctrl-C only makes the function that it gives return True; a second one stops at once.

    In a thread other than the main one, which Ctrl-C never reaches, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    noted: list[int] = []

    def note(number: int, frame: Any) -> None:
        if noted:
            raise KeyboardInterrupt
        noted.append(number)

    previous = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(noted)
    finally:
        signal.signal(signal.SIGINT, previous)
