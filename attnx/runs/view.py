"""Views of a summary, and the page of a run: all rows where they fit in 3 MB, else a sample that is drawn evenly.

What a text contains reaches the page as in every page of attnx: through jinja with autoescape, or as JSON that the
script inserts as text.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from attnx.results import Explanation
from attnx.runs.explanations import explanation_of
from attnx.runs.run import Run
from attnx.runs.summary import Group, RunSummary
from attnx.views import LOOKS, TextBlock, as_json, framed, harmless

_PLACES = ("first fifth", "second", "third", "fourth", "last fifth", "special tokens")
_PLOTTED = 8


def blocks(summary: RunSummary) -> list[TextBlock]:
    lead = [f"{summary.rows:,} rows, {summary.failed:,} of them failed"]
    lead += [f"failed: {reason} ({count:,})" for reason, count in summary.errors.items()]
    return [
        TextBlock(f"Words that contribute most, by {summary.explainer}", tuple(lead), _groups(summary.groups)),
        *_words(summary.groups, ""),
        *(
            [TextBlock("Where the data has another label", (), _groups(summary.disagreements))]
            * bool(summary.disagreements)
        ),
        *_words(summary.disagreements, "labelled "),
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
    """For each label how often a word contributes most."""
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
        ax.set_xlabel("rows in which it contributes most", fontsize=8)
    return axes


def _groups(groups: Sequence[Group]) -> list[list[str]]:
    apart = any(group.gold is not None for group in groups)
    known = any(group.right or group.wrong for group in groups)
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


def _words(groups: Sequence[Group], prefix: str) -> list[TextBlock]:
    text_blocks = []
    for group in groups:
        lines = [["word", "contributes most in", "occurs in", "mean share", "rows to look at"]]
        lines += [
            [word.text, f"{word.first:,}", f"{word.rows:,}", f"{word.share:.1%}", ", ".join(map(str, word.examples))]
            for word in group.words
        ]
        text_blocks.append(TextBlock(f"{group.label}{f', {prefix}{group.gold}' if group.gold else ''}", (), lines))
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
    page = harmless(
        {"methods": _methods(run), "sorts": _sorts(run), "images": "boxes" in run.layout.columns, "rows": rows}
    )
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
    """Every row, or every second, fourth, … by a hash of its number until they fit."""
    step, kept, size = 1, [], 0
    for cells in run.rows():
        if _draw(cells["row"]) % step:
            continue
        row = _row(cells, run)
        kept.append(row)
        size += _size(row)
        while size > LARGEST or len(kept) > _AT_MOST:
            step *= 2
            kept = [row for row in kept if _draw(row["row"]) % step == 0]
            size = sum(map(_size, kept))
    return kept


def _draw(row: int) -> int:
    return int.from_bytes(sha256(str(row).encode()).digest()[:8], "big")


def _size(row: Mapping[str, Any]) -> int:
    return len(json.dumps(row)) + 2


def _row(cells: Mapping[str, Any], run: Run) -> dict[str, Any]:
    known = {name: cells[name] for name in ("row", "id", "gold", "right")}
    if cells["error"] is not None:
        return {**known, "error": cells["error"], "text": (cells["text"] or "")[:300]}
    explanation = explanation_of(cells, run.layout)
    prediction = explanation.prediction
    certainty = None if prediction is None else prediction.certainty
    return {
        **known,
        "label": None if prediction is None else prediction.predicted,
        "probability": None if certainty is None else round(certainty, _DIGITS),
        "target": None if prediction is None else prediction.target,
        "words": [word.text for word in explanation.words],
        "scores": {name: _by_word(explanation, name) for name in explanation.methods},
        "numbers": {name: _rounded(cells[name]) for name in _sorts(run) if cells.get(name) is not None},
        "notes": list(explanation.notes),
    }


def _by_word(explanation: Explanation, name: str) -> list[float]:
    return [_rounded(word_score.score) for word_score in explanation.by_word(name)]


def _rounded(number: float) -> float:
    return float(f"{number:.{_DIGITS}g}")


def _methods(run: Run) -> list[dict[str, Any]]:
    """Those that can be shown, the default in front."""
    return [{"name": name, "signed": bool(facts.get("signed"))} for name, facts in run._common.attributions.items()]


def _sorts(run: Run) -> list[str]:
    """Columns of one number, besides the row and the probability: all diagnostics, and the sink."""
    return [name for name, kind in run.layout.columns.items() if kind == "number" and name != "probability"]


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
