"""Layer × head: how much each head gives to one word, where every head was kept."""

from __future__ import annotations

from typing import Any

from attnx.render.page.plain import Plain
from attnx.render.page.shown import Shown


def data(shown: Shown) -> dict[str, Any] | None:
    """The rows of each head are known to all sections, for each can show one head."""
    return {} if any(one["heads"] for one in shown.contents) else None


def plain(page: dict[str, Any]) -> list[Plain]:
    """Where no head can be chosen, their mean is shown."""
    return []
