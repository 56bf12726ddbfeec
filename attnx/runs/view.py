"""The page of a run. All rows where they fit in 3 MB, else a sample that is drawn evenly and said to be one.

What is written in a text reaches the page as in every page of attnx: through jinja with autoescape, or as JSON that the
script puts in as text.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from attnx.results import Explanation
from attnx.runs.run import Run
from attnx.runs.summary import Group, RunSummary
from attnx.runs.table import explanation_of
from attnx.views import LOOKS, TextBlock, as_json, framed, harmless

_PLACES = ("first fifth", "second", "third", "fourth", "last fifth", "special tokens")
_PLOTTED = 8


def blocks(summary: RunSummary) -> list[TextBlock]:
    lead = [f"{summary.rows:,} rows, {summary.failed:,} of them failed"]
    lead += [f"failed: {reason} ({count:,})" for reason, count in summary.errors.items()]
    return [
        TextBlock(f"What carries most, by {summary.explainer}", tuple(lead), _groups(summary.groups)),
        *_words(summary.groups, ""),
        *(
            [TextBlock("Where the data says something else", (), _groups(summary.disagreements))]
            * bool(summary.disagreements)
        ),
        *_words(summary.disagreements, "where the data says "),
    ]


def rows(summary: RunSummary) -> list[dict[str, Any]]:
    """A row for each word of each group."""
    return [
        {
            "label": group.label,
            "gold": group.gold,
            "word": word.text,
            "first": word.first,
            "rows": word.rows,
            "share": word.share,
        }
        for group in (*summary.groups, *summary.disagreements)
        for word in group.words
    ]


def plot(summary: RunSummary, axes: Any = None) -> Any:
    """For each label how often a word carries most."""
    if axes is None:
        from matplotlib import pyplot

        count = max(1, len(summary.groups))
        figure, panels = pyplot.subplots(1, count, figsize=(3.4 * count, 3.0), squeeze=False)
        figure.set_layout_engine("constrained")
        axes = panels[0]
    for ax, group in zip(axes, summary.groups, strict=False):
        words = [word for word in group.words[:_PLOTTED] if word.first][::-1]
        ax.barh([word.text for word in words], [word.first for word in words], color=LOOKS[0][0])
        ax.set_title(f"{group.label} ({group.rows:,} rows)", fontsize=10)
        ax.set_xlabel("rows in which it carries most", fontsize=8)
    return axes


def _groups(groups: Sequence[Group]) -> list[list[str]]:
    apart = any(one.gold is not None for one in groups)
    known = any(one.right or one.wrong for one in groups)
    head = ["label", *(["gold"] if apart else []), "rows", *(["right"] if known and not apart else []), "probability"]
    lines = [[*head, *_PLACES]]
    for group in groups:
        right = f"{group.right / (group.right + group.wrong):.1%}" if group.right + group.wrong else ""
        lines.append(
            [
                group.label,
                *([group.gold or ""] if apart else []),
                f"{group.rows:,}",
                *([right] if known and not apart else []),
                "" if group.probability is None else f"{group.probability:.3f}",
                *(f"{share:.0%}" for share in group.places),
            ]
        )
    return lines


def _words(groups: Sequence[Group], said: str) -> list[TextBlock]:
    text_blocks = []
    for group in groups:
        lines = [["word", "carries most in", "occurs in", "mean share", "rows to look at"]]
        lines += [
            [word.text, f"{word.first:,}", f"{word.rows:,}", f"{word.share:.1%}", ", ".join(map(str, word.examples))]
            for word in group.words
        ]
        text_blocks.append(TextBlock(f"{group.label}{f', {said}{group.gold}' if group.gold else ''}", (), lines))
    return text_blocks


LARGEST = 2_600_000
"""Bytes of rows in a page: the rest of it is small."""
_AT_MOST = 20_000
"""Rows: more of them no browser shows gladly."""
_DIGITS = 4


def run_cell(run: Run) -> str:
    """What a notebook shows: the page in a frame, and beneath it the summary."""
    return framed(run_page(run), run.summary().to_text())


def run_page(run: Run, *, title: str | None = None) -> str:
    """All of it as one text."""
    rows = sample(run)
    summary = run.summary()
    total = len(run)
    page = harmless({"methods": _methods(run), "sorts": _sorts(run), "images": run.layout.images, "rows": rows})
    script, style = _file("page.js"), _shared_style() + _file("page.css")
    written: str = _template().render(
        title=harmless(title or run.manifest.source),
        total=total,
        shown=len(rows),
        failed=summary.failed,
        source=harmless(run.manifest.source),
        complete=run.complete,
        blocks=[harmless({"heading": block.heading, "lead": list(block.lead), "lines": [list(line) for line in
        block.lines],
                          "foot": list(block.foot)}) for block in blocks(summary)],
        policy=f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; base-uri 'none'; "
        "form-action 'none'",
        style=style,
        script=script,
        data=as_json(page),
    )  # fmt: skip
    return written


def sample(run: Run) -> list[dict[str, Any]]:
    """Every row, or every second, fourth, … by a hash of its number until they fit: known of a row by itself."""
    every, kept, size = 1, [], 0
    for cells in run.rows():
        if _draw(cells["row"]) % every:
            continue
        row = _row(cells, run)
        kept.append(row)
        size += _size(row)
        while size > LARGEST or len(kept) > _AT_MOST:
            every *= 2
            kept = [one for one in kept if _draw(one["row"]) % every == 0]
            size = sum(_size(one) for one in kept)
    return kept


def _draw(row: int) -> int:
    return int.from_bytes(sha256(str(row).encode()).digest()[:8], "big")


def _size(row: Mapping[str, Any]) -> int:
    return len(json.dumps(row)) + 2


def _row(cells: Mapping[str, Any], run: Run) -> dict[str, Any]:
    told = {"row": cells["row"], "id": cells["id"], "gold": cells["gold"], "right": cells["right"]}
    if cells["error"] is not None:
        return {**told, "error": cells["error"], "text": (cells["text"] or "")[:300]}
    explanation = explanation_of(cells, run.layout)
    answer = explanation.prediction
    return {
        **told,
        "label": None if answer is None else answer.predicted,
        "probability": None if answer is None or answer.certainty is None else round(answer.certainty, _DIGITS),
        "target": None if answer is None else answer.target,
        "words": [word.text for word in explanation.words],
        "scores": {name: _by_word(explanation, name) for name in explanation.names},
        "numbers": {name: _rounded(cells[name]) for name in _sorts(run) if cells.get(name) is not None},
        "notes": list(explanation.notes),
    }


def _by_word(explanation: Explanation, name: str) -> list[float]:
    return [_rounded(word_score.score) for word_score in explanation.by_word(name)]


def _rounded(number: float) -> float:
    return float(f"{number:.{_DIGITS}g}")


def _methods(run: Run) -> list[dict[str, Any]]:
    """What can be shown, the first first."""
    names = (*run.layout.methods, *run.layout.references)
    first = run.layout.first or ("rollout" if "rollout" in names else names[0])
    ordered = (first, *(name for name in names if name != first))
    return [{"name": name, "signed": name in run.layout.signed} for name in ordered]


def _sorts(run: Run) -> list[str]:
    """Columns of one number, besides the place and the probability: all diagnostics, and the sink."""
    return list(_sort_columns(run))


def _sort_columns(run: Run) -> Iterator[str]:
    layout = run.layout
    for layer in layout.layers:
        yield from (layout.column(f"{name}_{kind}", layer) for name, of in layout.diagnostics.items() for kind in of)
        if layout.causal:
            yield layout.column("sink", layer)


@cache
def _template() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("attnx.runs", "page"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template("page.html.jinja")


def _file(name: str) -> Any:
    from markupsafe import Markup

    return Markup(files("attnx.runs.page").joinpath(name).read_text(encoding="utf-8"))


def _shared_style() -> Any:
    from markupsafe import Markup

    return Markup(files("attnx.views.page").joinpath("shared/page.css").read_text(encoding="utf-8"))


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
