"""The rows as the table of `docs/families.md`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.families.row import Row

LINE = 120
"""Characters of a reason; an error's first words say enough in a table."""


def table(rows: Sequence[Row]) -> str:
    """How many of each verdict, and a row for each type."""
    counts = Counter(row.verdict for row in rows)
    lines = [f"{len(rows)} model types: " + ", ".join(f"{count} {name}" for name, count in counts.most_common()) + "."]
    lines += ["", "| model type | verdict | |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| `{row.name}` | {row.verdict} | {_cell(row.reason)} |" for row in rows)])


def _cell(reason: str) -> str:
    plain = reason.replace("|", "/").replace("<", "‹").replace(">", "›").replace("`", "'").replace("[", "\\[")
    return plain if len(plain) <= LINE else plain[: LINE - 1].rstrip() + "…"
