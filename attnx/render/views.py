"""Kind of result → how it is looked at: the rows that fill the socket of the results.

Light, for all rows are read at once: the files of a view are loaded when a result of its kind is first looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from attnx.results.result import VIEWS, View


@cache
def explanation() -> View:
    from attnx.render.explanation import blocks, plot, plot_layers, rich, rows, text
    from attnx.render.exports import to_bertviz, to_captum
    from attnx.render.layered_graph import plot_graph
    from attnx.render.overlay import overlay

    more = (plot_layers, plot_graph, overlay, to_bertviz, to_captum)
    return _view(blocks, rows, plot, text=text, rich=rich, more=more)


@cache
def generation() -> View:
    from attnx.render.generation import blocks, heat_map, plain, rows
    from attnx.render.written_overlays import plot_overlays

    return _view(blocks, rows, heat_map, text=plain, more=(plot_overlays,))


@cache
def comparison() -> View:
    from attnx.render.comparison import blocks, plot, rows

    return _view(blocks, rows, plot)


@cache
def faithfulness() -> View:
    from attnx.render.faithfulness import blocks, plot, rows

    return _view(blocks, rows, plot)


@cache
def recommendation() -> View:
    from attnx.render.recommendation import blocks, plot, rows

    return _view(blocks, rows, plot)


@cache
def truth() -> View:
    from attnx.render.truth import blocks, plot, rows

    return _view(blocks, rows, plot)


@cache
def atlas() -> View:
    from attnx.render.atlas import blocks, plot, rows

    return _view(blocks, rows, plot)


@cache
def probe() -> View:
    from attnx.render.pronouns import blocks, panels, rows

    return _view(blocks, rows, lambda one: panels([one]))


@cache
def pronoun_report() -> View:
    from attnx.render.pronoun_report import blocks, curves, rows

    return _view(blocks, rows, curves)


@cache
def table() -> View:
    from attnx.render.table import plot_table, table_blocks, table_rows

    return _view(table_blocks, table_rows, plot_table)


@cache
def subject_table() -> View:
    from attnx.render.table import plot_subject, subject_blocks, subject_rows

    return _view(subject_blocks, subject_rows, plot_subject)


@cache
def trainings() -> View:
    from attnx.render.trainings import blocks, plot, rows

    return _view(blocks, rows, plot)


@cache
def subject_trainings() -> View:
    from attnx.render.trainings import plot_subject, subject_blocks, subject_rows

    return _view(subject_blocks, subject_rows, plot_subject)


@cache
def side_by_side() -> View:
    from attnx.render.side_by_side import blocks, plot, rich, rows, text

    return _view(blocks, rows, plot, text=text, rich=rich)


@cache
def word_alignment() -> View:
    from attnx.render.word_alignment import blocks, grid, rows

    return _view(blocks, rows, grid)


@cache
def similarity() -> View:
    from attnx.render.similarity import blocks, plot, rows

    return _view(blocks, rows, plot)


@cache
def run_summary() -> View:
    from attnx.render.run_page.page import run_cell, run_page
    from attnx.render.run_summary import blocks, plot, rows

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

    from attnx.render.axes import verbatim
    from attnx.render.columns import as_csv, as_markdown, as_text
    from attnx.render.page.notebook import notebook_html
    from attnx.render.page.page import to_html

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
    "comparison": comparison,
    "faithfulness table": faithfulness,
    "recommendation": recommendation,
    "truth": truth,
    "atlas": atlas,
    "probe": probe,
    "pronoun report": pronoun_report,
    "table": table,
    "subject table": subject_table,
    "trainings": trainings,
    "subject over trainings": subject_trainings,
    "side by side": side_by_side,
    "similarity": similarity,
    "word alignment": word_alignment,
    "run summary": run_summary,
}.items():
    VIEWS.add(_kind, _load)
