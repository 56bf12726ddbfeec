"""Words with their scores and bars for rich."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.text import Text

from attnx.explanation import WordScore
from attnx.render.heat_text import cut
from attnx.render.printable import isolated, printable

_BAR, _WIDEST_WORD = 24, 30
_BAR_COLOUR = "#dd6b10"


@dataclass(frozen=True)
class ScoreTable:
    """One line a word, with its position: a word may occur twice. The bars shrink with the terminal."""

    method: str
    words: tuple[WordScore, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        texts = [cut(printable(word.text), _WIDEST_WORD) for word in self.words]
        width = max(map(cell_len, ["word", *texts]))
        column = max(len(self.method), 6)
        head = f"position  {'word':<{width}}  {self.method:>{column}}"
        yield Text(head, style="dim")
        bar = min(_BAR, options.max_width - len(head) - 2)
        most = max((word.score for word in self.words), default=0.0)
        for word, text in zip(self.words, texts, strict=True):
            share = max(word.score, 0.0) / most if most > 0 else 0.0
            yield Text.assemble(
                (f"{word.positions[0]:>8}", "dim"),
                f"  {isolated(text)}{' ' * (width - cell_len(text))}  {word.score:>{column}.3f}  ",
                ("━" * round(bar * share), _BAR_COLOUR),
            )
