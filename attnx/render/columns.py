"""Lines of cells as a table that people read: aligned for the terminal, with pipes for Markdown."""

from __future__ import annotations

from collections.abc import Sequence

Lines = Sequence[Sequence[str]]


def aligned(lines: Lines) -> str:
    """Columns as wide as their widest cell.

    >>> print(aligned([["", "L1"], ["rollout", ".71"]]))
             L1
    rollout  .71
    """
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rows = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join(row.rstrip() for row in rows)


def piped(lines: Lines) -> str:
    """A Markdown table; the first line is its head.

    >>> print(piped([["", "L1"], ["rollout", ".71"]]))
    |  | L1 |
    |---|---|
    | rollout | .71 |
    """
    head, *body = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([head, "|" + "---|" * len(lines[0]), *body])


def decimals(value: float | None) -> str:
    """As the paper prints correlations: .69, −.11, 1.00.

    >>> decimals(-0.114)
    '−.11'
    """
    if value is None:
        return "–"
    digits = f"{abs(value):.2f}"
    sign = "−" if value < 0 and float(digits) else ""
    return sign + digits.removeprefix("0")
