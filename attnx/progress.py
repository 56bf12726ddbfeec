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


def announce(text: str) -> None:
    """Print a line on standard error."""
    print(text, file=sys.stderr, flush=True)


def is_terminal() -> bool:
    """Whether standard error is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


class progress_bar:  # noqa: N801 - used like a function
    """A progress bar that appears once work takes long, and disappears when it is done.

    Without a terminal there is no bar; with `estimate`, one line says how long the rest will take. The bar is created
    late because tqdm takes a lock, and quick work needs none.
    """

    def __init__(
        self, label: str, total: int | None, enabled: bool, unit: str = " texts", *, estimate: bool = False
    ) -> None:
        self._label, self._total, self._unit = label, total, unit
        self._shows_bar = enabled and is_terminal()
        self._shows_line = enabled and estimate and not self._shows_bar and total is not None
        self._start, self._count = monotonic(), 0
        self._bar: Any = None

    @property
    def visible(self) -> bool:
        return self._bar is not None

    def update(self, count: int) -> None:
        """Count further finished items."""
        self._count += count
        if self._bar is not None:
            self._bar.update(count)
        elif self._shows_bar and monotonic() - self._start > MIN_ELAPSED:
            from tqdm import tqdm

            options: dict[str, Any] = {"desc": self._label, "total": self._total, "unit": self._unit}
            self._bar = tqdm(initial=self._count, leave=False, file=sys.stderr, **options)
        elif self._shows_line:
            self._print_estimate(monotonic() - self._start)

    def set_postfix_str(self, text: str, refresh: bool = True) -> None:
        """Show a text after the bar."""
        if self._bar is not None:
            self._bar.set_postfix_str(text, refresh)

    def _print_estimate(self, elapsed: float) -> None:
        global _last_line
        remaining = elapsed / self._count * ((self._total or 0) - self._count)
        now = monotonic()
        if elapsed < MIN_ELAPSED or remaining <= MIN_REMAINING or now - _last_line < _LINE_INTERVAL:
            return
        _last_line = now
        announce(
            f"attnx: {self._label}: {self._count} of {self._total}{self._unit} took {duration(elapsed)}, the others "
            f"take about {duration(remaining)}"
        )

    def __enter__(self) -> progress_bar:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()
