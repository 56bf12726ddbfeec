"""Notes on how the input was read and reduced, and where the numbers come from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnx.render.page.plain import Plain
from attnx.render.page.shown import Shown


def data(shown: Shown) -> dict[str, Any] | None:
    """The provenance of each result, a line for each fact; notes are known to all sections."""
    if not shown.explanations:
        return None
    return {"results": [{"provenance": _flat(one.provenance)} for one in shown.explanations]}


def plain(page: dict[str, Any]) -> list[Plain]:
    """Notes stand beneath the words."""
    return []


def _flat(provenance: Mapping[str, Any], prefix: str = "") -> list[list[str]]:
    rows: list[list[str]] = []
    for name, value in provenance.items():
        if isinstance(value, Mapping):
            rows += _flat(value, f"{prefix}{name} ")
        elif value is not None:
            rows.append([f"{prefix}{name}", str(value)])
    return rows
