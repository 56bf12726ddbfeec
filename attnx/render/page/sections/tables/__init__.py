"""Results that are tables throughout: those that no other section shows."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from attnx.render.page.plain import PlainTable
from attnx.render.page.shown import Shown
from attnx.results.result import VIEWS


def data(shown: Shown) -> dict[str, Any] | None:
    """Headings, lines of cells, and what is said around them."""
    blocks = [block for one in shown.rest for block in VIEWS[one.kind]().blocks(one)]
    return {"blocks": [asdict(one) for one in blocks]} if blocks else None


def plain(page: dict[str, Any]) -> list[PlainTable]:
    found = page["tables"]
    return [PlainTable(one["heading"], one["lines"], one["lead"], one["foot"]) for one in found["blocks"]]
