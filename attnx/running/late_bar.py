"""A bar when work takes longer than a moment, or a line where nobody looks; what is quick shows nothing."""

from __future__ import annotations

import sys
from time import monotonic
from typing import Any

from attnx.methods.method import duration

MOMENT = 2.0
"""Seconds after which somebody wants to know how far it is."""
LONG = 10.0
"""Seconds ahead that are worth a line."""
_BETWEEN_LINES = 60.0
"""Seconds between two lines, for work that has many parts."""
_last_line = -_BETWEEN_LINES


class LateBar:
    """Counts, and from the first count after a moment on shows it; tqdm takes a lock, and quick work takes none."""

    def __init__(self, label: str, total: int | None, unit: str) -> None:
        self._how = {"desc": label, "total": total, "unit": unit}
        self._begun, self._count = monotonic(), 0
        self._shown: Any = None

    def update(self, count: int) -> None:
        """So many more are done."""
        self._count += count
        if self._shown is not None:
            self._shown.update(count)
        elif monotonic() - self._begun > MOMENT:
            from tqdm import tqdm

            self._shown = tqdm(initial=self._count, leave=False, file=sys.stderr, **self._how)

    @property
    def seen(self) -> bool:
        """Whether there is a bar yet."""
        return self._shown is not None

    def set_postfix_str(self, text: str, refresh: bool = True) -> None:
        """What is shown behind it."""
        if self._shown is not None:
            self._shown.set_postfix_str(text, refresh)

    def __enter__(self) -> LateBar:
        return self

    def __exit__(self, *error: object) -> None:
        if self._shown is not None:
            self._shown.close()


class LateLine:
    """Counts, and says once how long the rest will take, where standard error is a file or a notebook."""

    seen = False

    def __init__(self, label: str, total: int | None, unit: str) -> None:
        self._label, self._total, self._unit = label, total, unit
        self._begun, self._count = monotonic(), 0

    def update(self, count: int) -> None:
        """So many more are done."""
        global _last_line
        self._count += count
        now = monotonic()
        taken = now - self._begun
        if self._total is None or taken < MOMENT or now - _last_line < _BETWEEN_LINES:
            return
        left = taken / self._count * (self._total - self._count)
        if left > LONG:
            _last_line = now
            announce(
                f"attnx: {self._label}: {self._count} of {self._total}{self._unit} took {duration(taken)}, the others "
                f"take about {duration(left)}"
            )

    def set_postfix_str(self, text: str, refresh: bool = True) -> None:
        """A line has nothing behind it."""

    def __enter__(self) -> LateLine:
        return self

    def __exit__(self, *error: object) -> None:
        """What was said stays."""


def announce(text: str) -> None:
    """A line on standard error before long work, where it is in nobody's way."""
    print(text, file=sys.stderr, flush=True)


def watched() -> bool:
    """Whether somebody looks at standard error."""
    return sys.stderr is not None and sys.stderr.isatty()
