"""A bar that appears when work takes longer than a moment; what is quick shows nothing."""

from __future__ import annotations

import sys
from time import monotonic
from typing import Any

MOMENT = 2.0
"""Seconds after which somebody wants to know how far it is."""


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

    def set_postfix_str(self, text: str, refresh: bool = True) -> None:
        """What is shown behind it."""
        if self._shown is not None:
            self._shown.set_postfix_str(text, refresh)

    def __enter__(self) -> LateBar:
        return self

    def __exit__(self, *error: object) -> None:
        if self._shown is not None:
            self._shown.close()


def watched() -> bool:
    """Whether somebody looks at standard error."""
    return sys.stderr is not None and sys.stderr.isatty()
