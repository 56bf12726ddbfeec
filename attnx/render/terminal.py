"""An explanation in a terminal with colours: words on a background that is the stronger the more they matter."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.text import Text

from attnx.explanation import Explanation
from attnx.render.caption import answer, cautions, seen_from
from attnx.render.heat_text import HeatText, Legend
from attnx.render.plain_text import plain, plain_layers
from attnx.render.score_table import ScoreTable
from attnx.render.word_rows import layer_rows, method_rows

MOST_WORDS, MOST_WORDS_BY_LAYER = 240, 60
"""Longer texts are shortened to their strongest words, and the view says so."""


def show(
    explanation: Explanation,
    console: Console,
    methods: Sequence[str] = (),
    layer: int | None = None,
    *,
    layers: bool = False,
) -> None:
    """Print the view that the console can show. Without methods: all of them, or for `layers` the default one."""
    names = list(methods) or ([explanation.default_method] if layers else list(explanation.methods))
    if console.color_system is None or console.no_color:
        # A file has no width; only a terminal wraps.
        width = console.width if console.is_terminal else None
        texts = (
            plain_layers(explanation, name, width) if layers else plain(explanation, name, layer) for name in names
        )
        console.file.write("\n\n".join(texts) + "\n")
    elif layers:
        console.print(*(coloured_layers(explanation, name) for name in names), sep="\n\n")
    else:
        console.print(coloured(explanation, names, layer))


def coloured(explanation: Explanation, methods: Sequence[str] = (), layer: int | None = None) -> RenderableType:
    """The text in the colours of each method, the words that matter most, and what to beware of."""
    names = list(methods) or list(explanation.methods)
    rows = method_rows(explanation, names, layer).shortened(MOST_WORDS)
    main = explanation.default_method if explanation.default_method in names else names[0]
    scale = f"{rows.scores.max(initial=0):.3f}" if len(names) == 1 else "the most in its row"
    shown_layer = explanation.layers[-1] if layer is None else layer
    remarks = [rows.note, *cautions(explanation, names, layer)]
    return Group(
        *_headline(explanation, f"{names[0] if len(names) == 1 else 'relevance'} at layer {shown_layer}"),
        HeatText(rows),
        Text(),
        Legend(scale),
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
        *_headline(explanation, name),
        HeatText(short),
        Text(),
        Legend(f"{rows.scores.max(initial=0):.3f}"),
        *([Text(), Text(short.note, style="dim")] if short.note else []),
    )


def _headline(explanation: Explanation, what: str) -> list[Text]:
    predicted = (
        [("prediction ", "dim"), (answer(explanation), "bold"), (" · ", "dim")] if explanation.prediction else []
    )
    return [Text(), Text.assemble(*predicted, (f"{what}, {seen_from(explanation)}", "dim")), Text()]
