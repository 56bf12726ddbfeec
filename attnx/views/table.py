"""How many decimals of a score mean something: three figures of the strongest, as far as its method is exact."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any, TypeAlias

import numpy as np

from attnx.views.escaping import csv_cell, latex_text, markdown_text, printable

Lines: TypeAlias = Sequence[Sequence[str]]


@dataclass(frozen=True)
class TextBlock:
    """A table with what is said around it; the first of its lines is its head."""

    heading: str = ""
    lead: tuple[str, ...] = ()
    lines: Lines = ()
    foot: tuple[str, ...] = ()
    bold: frozenset[tuple[int, int]] = frozenset()
    """(line, column) of the cells that LaTeX prints in bold."""


def as_text(blocks: Iterable[TextBlock]) -> str:
    """For the terminal: a paragraph for each part of a block."""
    return _written(blocks, aligned, printable, lambda heading: heading)


def as_markdown(blocks: Iterable[TextBlock]) -> str:
    """The same with bold headings and Markdown's tables."""
    return _written(blocks, piped, markdown_text, lambda heading: f"**{heading}**")


def as_latex(blocks: Iterable[TextBlock]) -> str:
    """A `table` environment for each block that has a table, with the rules of booktabs; other blocks are comments."""
    parts = []
    for block in blocks:
        notes = (*block.lead, *block.foot)
        if not block.lines:
            parts.append("\n".join(f"% {printable(note)}" for note in (block.heading, *notes) if note))
            continue
        head, *body = (
            " & ".join(
                rf"\textbf{{{latex_text(text)}}}" if text and (row, column) in block.bold else latex_text(text)
                for column, text in enumerate(line)
            )
            + r" \\"
            for row, line in enumerate(block.lines)
        )
        notes_line = rf"\par\smallskip{{\footnotesize {' '.join(map(latex_text, notes))}}}"
        parts.append(
            "\n".join(
                [
                    r"\begin{table}",
                    r"\centering",
                    *([rf"\caption{{{latex_text(block.heading)}}}"] if block.heading else []),
                    rf"\begin{{tabular}}{{l{'r' * (len(block.lines[0]) - 1)}}}",
                    r"\toprule",
                    head,
                    r"\midrule",
                    *body,
                    r"\bottomrule",
                    r"\end{tabular}",
                    *([notes_line] if notes else []),
                    r"\end{table}",
                ]
            )
        )
    return "\n\n".join(part for part in parts if part)


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """A line for each row; what is undefined is an empty cell, and no cell is a formula."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    written = StringIO()
    table = csv.writer(written, lineterminator="\n")
    table.writerow(map(csv_cell, names))
    table.writerows([_cell(row.get(name)) for name in names] for row in rows)
    return written.getvalue()


def _cell(value: Any) -> Any:
    return "" if value is None or value != value else csv_cell(value)


def _written(
    blocks: Iterable[TextBlock],
    table: Callable[[Lines], str],
    inert: Callable[[str], str],
    emphasised: Callable[[str], str],
) -> str:
    parts: list[str] = []
    for block in blocks:
        parts += [emphasised(inert(block.heading))] if block.heading else []
        parts += ["\n".join(map(inert, block.lead))] if block.lead else []
        parts += [table(block.lines)] if block.lines else []
        parts += ["\n".join(map(inert, block.foot))] if block.foot else []
    return "\n\n".join(parts)


def aligned(lines: Lines) -> str:
    """Columns as wide as their widest cell.

    >>> print(aligned([["", "L1"], ["rollout", ".71"]]))
             L1
    rollout  .71
    """
    lines = [[printable(cell) for cell in line] for line in lines]
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
    head, *body = (f"| {' | '.join(map(markdown_text, line))} |" for line in lines)
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


FIGURES = 3
_FEWEST, _MOST = 1, 12


def places(scores: Any, exact: int | None = None) -> int:
    """Decimals for scores that are read side by side; `exact` are those of their method.

    >>> places([0.25, 0.031]), places([12.3, -840.0]), places([2e-7, 0]), places([2e-7, 0], exact=9)
    (3, 1, 9, 9)
    >>> places([1.0]), places([1 - 1e-16])  # rounding is not seen
    (2, 2)
    """
    most = float(np.abs(np.asarray(scores, dtype=float)).max(initial=0))
    if most == 0:
        return FIGURES
    wanted = FIGURES - 1 - int(np.floor(np.log10(float(f"{most:.{FIGURES - 1}e}"))))
    return max(_FEWEST, min(wanted, _MOST if exact is None else exact))


def written(score: float, decimals: int) -> str:
    """A score with so many decimals; a zero has no sign.

    >>> written(-0.0004, 3)
    '0.000'
    """
    return f"{round(score, decimals) + 0.0:.{decimals}f}"
