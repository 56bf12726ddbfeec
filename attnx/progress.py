"""Progress of long work on standard error; quick work shows nothing."""

from __future__ import annotations

import sys
from time import monotonic
from typing import Any

from attnx.errors import duration

MIN_ELAPSED = 2.0
"""Seconds before anything is shown."""
MIN_REMAINING = 10.0
"""Remaining seconds that are worth a line."""
_LINE_INTERVAL = 60.0
_last_line = -_LINE_INTERVAL


def progress_bar(
    label: str, total: int | None, enabled: bool, unit: str = " texts", *, estimate: bool = False
) -> Progress:
    """Return a progress bar that appears once work takes long, and disappears when it is done.

    Without a terminal there is no bar; with `estimate`, one line says how long the rest will take.
    """
    if not enabled:
        return Progress()
    if is_terminal():
        return _TerminalBar(label, total, unit)
    return _EstimateLine(label, total, unit) if estimate else Progress()


def announce(text: str) -> None:
    """Print a line on standard error."""
    print(text, file=sys.stderr, flush=True)


def is_terminal() -> bool:
    """Whether standard error is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


class Progress:
    """Counts finished work and shows nothing."""

    visible = False

    def update(self, count: int) -> None:
        """Count further finished items."""

    def set_postfix_str(self, text: str, refresh: bool = True) -> None:
        """Show a text after the bar."""

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None: ...


class _TerminalBar(Progress):
    """A tqdm bar, created at the first count after a moment: tqdm takes a lock, and quick work takes none."""

    def __init__(self, label: str, total: int | None, unit: str) -> None:
        self._options = {"desc": label, "total": total, "unit": unit}
        self._start, self._count = monotonic(), 0
        self._bar: Any = None

    @property
    def visible(self) -> bool:  # type: ignore[override]
        return self._bar is not None

    def update(self, count: int) -> None:
        self._count += count
        if self._bar is not None:
            self._bar.update(count)
        elif monotonic() - self._start > MIN_ELAPSED:
            from tqdm import tqdm

            self._bar = tqdm(initial=self._count, leave=False, file=sys.stderr, **self._options)

    def set_postfix_str(self, text: str, refresh: bool = True) -> None:
        if self._bar is not None:
            self._bar.set_postfix_str(text, refresh)

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()


class _EstimateLine(Progress):
    """Prints once how long the rest will take, where standard error is a file or a notebook."""

    def __init__(self, label: str, total: int | None, unit: str) -> None:
        self._label, self._total, self._unit = label, total, unit
        self._start, self._count = monotonic(), 0

    def update(self, count: int) -> None:
        global _last_line
        self._count += count
        now = monotonic()
        elapsed = now - self._start
        if self._total is None or elapsed < MIN_ELAPSED or now - _last_line < _LINE_INTERVAL:
            return
        remaining = elapsed / self._count * (self._total - self._count)
        if remaining > MIN_REMAINING:
            _last_line = now
            announce(
                f"attnx: {self._label}: {self._count} of {self._total}{self._unit} took {duration(elapsed)}, the "
                f"others take about {duration(remaining)}"
            )
