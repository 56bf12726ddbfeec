"""An explanation in a terminal with colours: words on backgrounds as strong as their scores."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.text import Text

from attnx.results import Explanation, WordScore, layered_method
from attnx.views.escaping import isolated, printable
from attnx.views.table import places, written
from attnx.views.text import (
    GAP,
    SECOND_TEXT,
    WordRows,
    cautions,
    judgement,
    layer_rows,
    named_rows,
    notes,
    plain_layers,
    plain_row,
    prediction_noun,
    row_name,
    seen_from,
)

if TYPE_CHECKING:
    from matplotlib.colors import Colormap

Colour = tuple[int, int, int]
Stops = tuple[tuple[float, Colour], ...]

FOR, AGAINST = "#c85200", "#1660a0"
"""Bars."""
BEHIND_FOR, BEHIND_AGAINST = "#e8741a", "#4a6d9c"
"""Behind dark letters on paper: `--hot` and `--lines` of the page."""
STOPS_FOR: Stops = ((0.0, (238, 232, 225)), (0.5, (246, 178, 107)), (1.0, (190, 72, 0)))
STOPS_AGAINST: Stops = ((0.0, (238, 232, 225)), (0.5, (150, 190, 226)), (1.0, (22, 96, 160)))
"""From warm grey through apricot to burnt orange, or through pale to full blue: dull to vivid on a dark terminal as
on a light one."""


def colour_map(*, signed: bool) -> Colormap:
    """From 0 to the most; of signed scores from the most opposing through 0 to the most supporting."""
    return _both_ways() if signed else _one_way()


@lru_cache(maxsize=1)
def _one_way() -> Colormap:
    return _colormap("attnx", STOPS_FOR)


@lru_cache(maxsize=1)
def _both_ways() -> Colormap:
    against = tuple((0.5 - stop / 2, colour) for stop, colour in reversed(STOPS_AGAINST))
    return _colormap("attnx_signed", against + tuple((0.5 + stop / 2, colour) for stop, colour in STOPS_FOR[1:]))


def _colormap(name: str, stops: Stops) -> Colormap:
    from matplotlib.colors import LinearSegmentedColormap

    parts = [(stop, (red / 255, green / 255, blue / 255)) for stop, (red, green, blue) in stops]
    return LinearSegmentedColormap.from_list(name, parts)


MOST_WORDS, MOST_WORDS_BY_LAYER = 240, 60
"""Longer texts are shortened to their strongest words, which the view notes."""

_BAR, _WIDEST_WORD = 24, 30
_SIGNS = {None: "", "for": " supports", "against": " opposes"}

_FEW_FOR = ("black on white", "black on bright_yellow", "black on yellow", "bright_white on red")
_FEW_AGAINST = ("black on white", "black on bright_cyan", "black on cyan", "bright_white on blue")
"""For terminals with 16 colours, where mixed ones would be rounded to any of them."""


def show(
    explanation: Explanation,
    console: Console,
    methods: Sequence[str] = (),
    *,
    layers: bool = False,
    content_only: bool = False,
) -> None:
    """Print the view that the console can show. Without methods: all of them, or for `layers` the default one."""
    names = list(methods) or ([layered_method(explanation)] if layers else list(explanation.methods))
    if console.color_system is None or console.no_color:
        # A file has no width; only a terminal wraps.
        width = console.width if console.is_terminal else None
        texts = (
            plain_layers(explanation, name, width, content_only=content_only)
            if layers
            else plain_row(explanation, name, content_only=content_only)
            for name in names
        )
        console.file.write("\n".join(["\n\n".join(texts), *notes(explanation)]) + "\n")
    elif layers:
        console.print(*(coloured_layers(explanation, name, content_only=content_only) for name in names), sep="\n\n")
    else:
        console.print(coloured(explanation, names, content_only=content_only))


def coloured(
    explanation: Explanation, names: Sequence[str] = (), layer: int | None = None, *, content_only: bool = False
) -> RenderableType:
    """The summary, the text in the colours of each method, the best words, and cautions."""
    chosen = list(names) or list(explanation.methods)
    main = chosen[0]
    rows = named_rows(explanation, chosen, layer, content_only=content_only).shortened(MOST_WORDS)
    most = float(abs(rows.scores).max(initial=0))
    title, scale = row_name(explanation, main, layer), written(most, places(most))
    if len(chosen) > 1:
        at = (explanation.layers or (1,))[-1] if layer is None else layer
        title, scale = f"relevance at layer {at}, {seen_from(explanation)}", "the most in its row"
    others = [judgement(explanation, name, layer, with_input=False) for name in chosen if name != main]
    remarks = [rows.note, *others, *cautions(explanation, chosen, layer)]
    return Group(
        *_headline(explanation, title, judgement(explanation, main, layer)),
        HeatText(rows),
        Text(),
        Legend(scale, signed=any(explanation.attributions[name].signed for name in chosen)),
        Text(),
        ScoreTable(
            main, _best(explanation, main, layer, content_only=content_only), explanation.attributions[main].precision
        ),
        Text(),
        *_parts(explanation, main, layer),
        *(Text(remark, style="dim") for remark in remarks if remark),
        *(Text(note) for note in notes(explanation)),
    )


def coloured_layers(
    explanation: Explanation, method: str | None = None, *, content_only: bool = False
) -> RenderableType:
    """The text once for each layer, the last on top, on one scale."""
    name = layered_method(explanation, method)
    rows = layer_rows(explanation, name, content_only=content_only)
    most = float(abs(rows.scores).max(initial=0))
    short = rows.shortened(MOST_WORDS_BY_LAYER)
    return Group(
        *_headline(explanation, f"{name}, {seen_from(explanation)}", judgement(explanation, name)),
        HeatText(short),
        Text(),
        Legend(written(most, places(most)), signed=explanation.attributions[name].signed),
        *([Text(), Text(short.note, style="dim")] if short.note else []),
        *(Text(note) for note in notes(explanation)),
    )


@dataclass(frozen=True)
class HeatText:
    """All rows of as many words as fit on a line, then all rows of the next words. A second text has its own lines."""

    rows: WordRows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        margin = max(map(cell_len, self.rows.labels), default=0) + 2
        room = max(options.max_width - margin, 4)
        words = [f" {isolated(cut(word, room - 2))} " for word in self.rows.words]
        for number, line in enumerate(lines(words, room, self.rows.starts)):
            if number and (len(self.rows.labels) > 1 or line[0] in self.rows.starts):
                yield Text()
            if number and line[0] in self.rows.starts:
                yield Text(set_cell_size("", margin) + SECOND_TEXT, style="dim", no_wrap=True, overflow="ignore")
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
    """The colours from 0 to the most; of signed scores on both sides of 0."""

    most: str
    signed: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        line = Text.assemble(("opposes " if self.signed else "0 ", "dim"))
        for step in range(-8, 9, 2) if self.signed else range(9):
            line.append("   ", style=shade(step / 8, console.color_system))
        yield line.append(f" {'supports · ' if self.signed else ''}{self.most}", style="dim")


@dataclass(frozen=True)
class ScoreTable:
    """One line a word, with its position, since a word may occur twice. The bars shrink with the terminal."""

    method: str
    words: tuple[WordScore, ...]
    exact: int | None = None
    unit: str = "word"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        texts = [cut(printable(word.text), _WIDEST_WORD) for word in self.words]
        width = max(map(cell_len, [self.unit, *texts]))
        column = max(len(self.method), 6)
        head = f"position  {self.unit:<{width}}  {self.method:>{column}}"
        yield Text(head, style="dim")
        signs = [_SIGNS[word.speaks] for word in self.words]
        bar = min(_BAR, options.max_width - len(head) - 2 - max(map(len, signs), default=0))
        scores = [word.score for word in self.words]
        most, decimals = max(map(abs, scores), default=0.0), places(scores, self.exact)
        for word, text, sign in zip(self.words, texts, signs, strict=True):
            share = abs(word.score) / most if most > 0 else 0.0
            yield Text.assemble(
                (f"{word.positions[0]:>8}", "dim"),
                f"  {isolated(text)}{' ' * (width - cell_len(text))}  {written(word.score, decimals):>{column}}  ",
                ("━" * round(bar * share), FOR if word.score >= 0 else AGAINST),
                (sign, "dim"),
            )


def lines(words: list[str], room: int, starts: Collection[int] = ()) -> list[list[int]]:
    """The words' indices, as many a line as have room; widths are those of the terminal's cells. `starts` begin one."""
    result: list[list[int]] = []
    left = 0
    for index, word in enumerate(words):
        width = cell_len(word)
        if not result or width > left or index in starts:
            result.append([])
            left = room
        result[-1].append(index)
        left -= width
    return result


def cut(word: str, width: int) -> str:
    """A word that is wider than the line, cut with an ellipsis."""
    return word if cell_len(word) <= width else set_cell_size(word, width - 1) + "…"


def shade(share: float, colours: str | None = None) -> str:
    """A rich style for a share between −1 and 1: the background, and whichever of black and white reads better on it.

    `colours` is the console's `color_system`.
    """
    strength = min(abs(share), 1.0)
    if colours in ("standard", "windows"):
        few = _FEW_FOR if share >= 0 else _FEW_AGAINST
        return few[min(int(strength * len(few)), len(few) - 1)]
    background = _between(strength, STOPS_FOR if share >= 0 else STOPS_AGAINST)
    bright = _luminance(background)
    # The contrast ratio of WCAG 2: white on it against black on it.
    ink = "#ffffff" if 1.05 / (bright + 0.05) > (bright + 0.05) / 0.05 else "#000000"
    return f"{ink} on #{''.join(f'{index:02x}' for index in background)}"


def _headline(explanation: Explanation, title: str, summary: str) -> list[Text]:
    prediction, predicted = explanation.prediction, []
    if prediction is not None:
        predicted = [
            (f"{prediction_noun(explanation)} ", "dim"),
            (printable(prediction.answer), "bold"),
            (" · ", "dim"),
        ]
    if prediction is not None and prediction.target is not None:
        predicted += [("target ", "dim"), (printable(prediction.target), "bold"), (" · ", "dim")]
    return [Text(), Text.assemble(*predicted, (title, "dim")), Text(summary), Text()]


def _best(explanation: Explanation, name: str, layer: int | None, *, content_only: bool) -> tuple[WordScore, ...]:
    """The words with the highest scores, and of signed scores also the most opposing one."""
    best = explanation.top(5, name, layer, content_only=content_only)
    every = explanation.by_word(name, layer, content_only=content_only)
    against = min((word for word in every if word.speaks == "against"), key=lambda word: word.score, default=None)
    return tuple(best) if against is None or against in best else (*best, against)


def _parts(explanation: Explanation, name: str, layer: int | None) -> list[RenderableType]:
    """All named parts in the order of the text."""
    if not explanation.spans:
        return []
    parts = tuple(explanation.by_span(name, layer))
    return [ScoreTable(name, parts, explanation.attributions[name].precision, unit="part"), Text()]


def _between(share: float, stops: Stops) -> Colour:
    upper = max(next(index for index, (stop, _) in enumerate(stops) if share <= stop), 1)
    (start, below), (end, above) = stops[upper - 1 : upper + 1]
    part = (share - start) / (end - start)
    red, green, blue = (round(low + part * (high - low)) for low, high in zip(below, above, strict=True))
    return red, green, blue


def _luminance(colour: Colour) -> float:
    linear = [
        value / 12.92 if value <= 0.03928 else ((value + 0.055) / 1.055) ** 2.4 for value in (c / 255 for c in colour)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
