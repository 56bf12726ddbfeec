"""The page of a run. All rows where they fit in 3 MB, else a sample that is drawn evenly and said to be one.

What is written in a text reaches the page as in every page of attnx: through jinja with autoescape, or as JSON that the
script puts in as text.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from attnx.data.cells import explanation_of
from attnx.data.run import Run
from attnx.render.page.notebook import framed
from attnx.render.page.page import as_json
from attnx.render.printable import harmless
from attnx.render.run_summary import blocks
from attnx.results.explanation import Explanation

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
        blocks=[harmless({"heading": one.heading, "lead": list(one.lead), "lines": [list(line) for line in one.lines],
                          "foot": list(one.foot)}) for one in blocks(summary)],
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
        "words": [one.text for one in explanation.words],
        "scores": {name: _by_word(explanation, name) for name in explanation.names},
        "numbers": {name: _rounded(cells[name]) for name in _sorts(run) if cells.get(name) is not None},
        "notes": list(explanation.notes),
    }


def _by_word(explanation: Explanation, name: str) -> list[float]:
    return [_rounded(one.score) for one in explanation.by_word(name)]


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
        loader=PackageLoader("attnx.render.run_page", ""), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template("page.html.jinja")


def _file(name: str) -> Any:
    from markupsafe import Markup

    return Markup(files("attnx.render.run_page").joinpath(name).read_text(encoding="utf-8"))


def _shared_style() -> Any:
    from markupsafe import Markup

    return Markup(files("attnx.render.page").joinpath("shared/page.css").read_text(encoding="utf-8"))


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
