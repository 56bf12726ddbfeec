"""Words on coloured backgrounds for rich, wrapped to the width of the terminal like an interlinear text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions
from rich.text import Text

from attnx.render.printable import isolated
from attnx.render.shade import shade
from attnx.render.word_rows import GAP, WordRows


@dataclass(frozen=True)
class HeatText:
    """All rows of as many words as fit on a line, then all rows of the next words."""

    rows: WordRows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        margin = max(map(cell_len, self.rows.labels), default=0) + 2
        room = max(options.max_width - margin, 4)
        words = [f" {isolated(cut(word, room - 2))} " for word in self.rows.words]
        for number, line in enumerate(lines(words, room)):
            if number and len(self.rows.labels) > 1:
                yield Text()
            for row, label in enumerate(self.rows.labels):
                shown = Text(set_cell_size(label if not number or len(self.rows.labels) > 1 else "", margin))
                for index in line:
                    gap = self.rows.words[index] == GAP
                    share = float(self.rows.shares[row, index])
                    shown.append(words[index], style="dim" if gap else shade(share, console.color_system))
                # One line of the terminal by construction: rich must not look for a better place to break it.
                shown.no_wrap, shown.overflow = True, "ignore"
                yield shown


@dataclass(frozen=True)
class Legend:
    """The colours from 0 to the most, with what the most is; on both sides of 0 where something speaks against."""

    most: str
    signed: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        line = Text.assemble(("against " if self.signed else "0 ", "dim"))
        for step in range(-8, 9, 2) if self.signed else range(9):
            line.append("   ", style=shade(step / 8, console.color_system))
        yield line.append(f" {self.most}", style="dim")


def lines(words: list[str], room: int) -> list[list[int]]:
    """The words' indices, as many a line as have room; widths are those of the terminal's cells."""
    found: list[list[int]] = []
    left = 0
    for index, word in enumerate(words):
        width = cell_len(word)
        if not found or width > left:
            found.append([])
            left = room
        found[-1].append(index)
        left -= width
    return found


def cut(word: str, width: int) -> str:
    """A word that is wider than the line, cut with an ellipsis."""
    return word if cell_len(word) <= width else set_cell_size(word, width - 1) + "…"
