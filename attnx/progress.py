"""The progress bar of long runs: on standard error, and only where somebody sees it."""

from __future__ import annotations

from typing import Any


def bar(label: str, total: int, shown: bool, unit: str = " texts") -> Any:
    """A bar that is gone when the work is done; none where standard error is no terminal."""
    from tqdm import tqdm

    return tqdm(total=total, desc=label, unit=unit, disable=None if shown else True, leave=False)
