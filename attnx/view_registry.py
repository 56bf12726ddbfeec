"""Kind of result → how it is looked at: the rows that fill the socket of the results.

Light, for all rows are read at once: the files of a view are loaded when a result of its kind is first looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from attnx.results import VIEWS, View


@cache
def explanation() -> View:
    from attnx.views import blocks, overlay, plot, plot_graph, plot_layers, rich, rows, to_bertviz, to_captum
    from attnx.views.explanation import text

    more = (plot_layers, plot_graph, overlay, to_bertviz, to_captum)
    return _view(blocks, rows, plot, text=text, rich=rich, more=more)


@cache
def generation() -> View:
    from attnx.generation import blocks, heat_map, plain, plot_overlays, rows

    return _view(blocks, rows, heat_map, text=plain, more=(plot_overlays,))


@cache
def evaluation_table() -> View:
    return _view(
        lambda table: table.blocks(),
        lambda table: table.rows(),
        lambda table, *args, **options: table.draw(*args, **options),
    )


@cache
def probe() -> View:
    from attnx.pronouns import panels
    from attnx.pronouns import pronouns_blocks as blocks
    from attnx.pronouns import pronouns_rows as rows

    return _view(blocks, rows, lambda one: panels([one]))


@cache
def side_by_side() -> View:
    from attnx.counterfactuals import blocks, plot, rich, rows, text

    return _view(blocks, rows, plot, text=text, rich=rich)


@cache
def word_alignment() -> View:
    from attnx.word_alignment import blocks, grid, rows

    return _view(blocks, rows, grid)


@cache
def similarity() -> View:
    from attnx.similarity import blocks, plot, rows

    return _view(blocks, rows, plot)


@cache
def run_summary() -> View:
    from attnx.runs import blocks, plot, rows, run_cell, run_page

    return _view(blocks, rows, plot, more=(run_page, run_cell))


def _view(
    blocks: Callable[[Any], Iterable[Any]],
    rows: Callable[[Any], list[dict[str, Any]]],
    plot: Callable[..., Any],
    *,
    text: Callable[[Any], str] | None = None,
    rich: Callable[[Any], Any] | None = None,
    more: Iterable[Callable[..., Any]] = (),
) -> View:
    """A view of tables, which text and Markdown show alike unless the kind has better."""
    from rich.text import Text

    from attnx.views import as_csv, as_markdown, as_text, notebook_html, to_html, verbatim

    written = text or (lambda one: as_text(blocks(one)))
    return View(
        blocks=blocks,
        text=written,
        markdown=lambda one: as_markdown(blocks(one)),
        rows=rows,
        csv=lambda one: as_csv(rows(one)),
        plot=verbatim(plot),
        rich=rich or (lambda one: Text(written(one))),
        html=to_html,
        notebook=notebook_html,
        more={one.__name__: one for one in more},
    )


for _kind, _load in {
    "explanation": explanation,
    "explained generation": generation,
    "evaluation table": evaluation_table,
    **dict.fromkeys(
        ("suite", "benchmark", "comparison", "faithfulness table", "recommendation", "atlas"), evaluation_table
    ),
    "probe": probe,
    "pronoun report": evaluation_table,
    "paper table": evaluation_table,
    "subject table": evaluation_table,
    "side by side": side_by_side,
    "similarity": similarity,
    "word alignment": word_alignment,
    "run summary": run_summary,
}.items():
    VIEWS.add(_kind, _load)
