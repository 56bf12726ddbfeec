"""Layer × position as a heat map of each method (the paper's Figures 2 and 3)."""

from __future__ import annotations

from typing import Any

from attnx.render.page.plain import Plain
from attnx.render.page.shown import Shown


def data(shown: Shown) -> dict[str, Any] | None:
    """What it draws, all sections know."""
    return {} if shown.explanations else None


def plain(page: dict[str, Any]) -> list[Plain]:
    """A canvas needs its script."""
    return []
