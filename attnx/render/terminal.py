"""An explanation in a terminal with colours: words on a background that is the stronger the more they matter."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.text import Text

from attnx.explanation import Explanation
from attnx.render.caption import answer, cautions, row_name, seen_from
from attnx.render.heat_text import HeatText, Legend
from attnx.render.plain_text import plain, plain_layers
from attnx.render.score_table import ScoreTable
from attnx.render.word_rows import layer_rows, named_rows

MOST_WORDS, MOST_WORDS_BY_LAYER = 240, 60
"""Longer texts are shortened to their strongest words, and the view says so."""


def show(explanation: Explanation, console: Console, methods: Sequence[str] = (), *, layers: bool = False) -> None:
    """Print the view that the console can show. Without methods: all of them, or for `layers` the default one.

    References, which have no layers, follow the methods at the last one.
    """
    names = list(methods) or ([explanation.default_method] if layers else list(explanation.methods))
    names += [] if layers else explanation.references
    if console.color_system is None or console.no_color:
        # A file has no width; only a terminal wraps.
        width = console.width if console.is_terminal else None
        texts = (plain_layers(explanation, name, width) if layers else plain(explanation, name) for name in names)
        console.file.write("\n\n".join(texts) + "\n")
    elif layers:
        console.print(*(coloured_layers(explanation, name) for name in names), sep="\n\n")
    else:
        console.print(coloured(explanation, names))


def coloured(explanation: Explanation, names: Sequence[str] = (), layer: int | None = None) -> RenderableType:
    """The text in the colours of each method and reference, the words that matter most, and what to beware of."""
    chosen = list(names) or [*explanation.methods, *explanation.references]
    main = explanation.default_method if explanation.default_method in chosen else chosen[0]
    rows = named_rows(explanation, chosen, layer).shortened(MOST_WORDS)
    what, scale = row_name(explanation, main, layer), f"{abs(rows.scores).max(initial=0):.3f}"
    if len(chosen) > 1:
        at = explanation.layers[-1] if layer is None else layer
        what, scale = f"relevance at layer {at}, {seen_from(explanation)}", "the most in its row"
    remarks = [rows.note, *cautions(explanation, chosen, layer)]
    return Group(
        *_headline(explanation, what),
        HeatText(rows),
        Text(),
        Legend(scale, signed=bool((rows.scores < 0).any())),
        Text(),
        ScoreTable(main, tuple(explanation.top(5, main, layer))),
        Text(),
        *(Text(remark, style="dim") for remark in remarks if remark),
    )


def coloured_layers(explanation: Explanation, method: str | None = None) -> RenderableType:
    """The text once for each layer, the last on top, on one scale."""
    name = method or explanation.default_method
    rows = layer_rows(explanation, name)
    short = rows.shortened(MOST_WORDS_BY_LAYER)
    return Group(
        *_headline(explanation, f"{name}, {seen_from(explanation)}"),
        HeatText(short),
        Text(),
        Legend(f"{rows.scores.max(initial=0):.3f}"),
        *([Text(), Text(short.note, style="dim")] if short.note else []),
    )


def _headline(explanation: Explanation, what: str) -> list[Text]:
    predicted = (
        [("prediction ", "dim"), (answer(explanation), "bold"), (" · ", "dim")] if explanation.prediction else []
    )
    return [Text(), Text.assemble(*predicted, (what, "dim")), Text()]
