"""Explanations side by side: what the answers became, and each word above the one that stands for it."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, isnan
from typing import TYPE_CHECKING, Any

import numpy as np

from attnx.counterfactuals.side_by_side import SideBySide
from attnx.targets import Prediction
from attnx.views import (
    LOOKS,
    SECOND_TEXT,
    VERBATIM,
    Legend,
    Shown,
    TextBlock,
    as_text,
    axes_or_new,
    printable,
    shade,
    table_data,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import RenderableType

ARROW = " → "
ABSENT = "–"
_CLASSES = 5
"""Of so many at most each class has a line."""


def text(shown: SideBySide) -> str:
    """The answers, and the words by what is shown first."""
    return as_text(_blocks(shown, shown.names[:1]))


def blocks(shown: SideBySide) -> list[TextBlock]:
    """The answers, and the words by each method and reference that all have."""
    return _blocks(shown, shown.names)


def rows(shown: SideBySide) -> list[dict[str, Any]]:
    """A row for each method or reference, each row of words, and each explanation."""
    return [
        {"method": name, "row": row, "explanation": title, "word": words[number] or None, "score": float(score)}
        for name in shown.names
        for row, scores in enumerate(shown.scores(name))
        for words in [shown.words(row)]
        for number, (title, score) in enumerate(zip(shown.titles, scores, strict=True))
    ]


def answers(shown: SideBySide) -> list[list[str]]:
    """A line for what each model answered, and for the probability of what is explained, or of each of few classes."""
    said = [explanation.prediction for explanation in shown.explanations]
    known = [prediction for prediction in said if prediction is not None]
    if len(known) < len(said):
        return []
    lines = [["answer", *(best_label(prediction) for prediction in known)]]
    shares = [class_shares(prediction) for prediction in known]
    labels = known[0].labels
    if all(share is not None for share in shares) and all(prediction.labels == labels for prediction in known):
        lines += [
            [f"p({label})", *(f"{share[index]:.3f}" for share in shares if share is not None)]
            for index, label in enumerate(labels)
        ]
    elif len({prediction.label for prediction in known}) == 1:
        lines.append([f"p({known[0].label.strip()})", *(_probability(prediction) for prediction in known)])
    else:
        lines.append(["explained", *(f"{prediction.label.strip()} {_probability(prediction)}" for prediction in known)])
    return lines


def best_label(prediction: Prediction) -> str:
    """What the model answers, which need not be what is explained."""
    return printable(prediction.predicted.strip() or prediction.predicted)


def class_shares(prediction: Prediction) -> list[float] | None:
    """The probability of each of few classes, of which one is true; None where that is not what the logits say."""
    if prediction.kind != "class" or len(prediction.logits) > _CLASSES or prediction.probability is None:
        return None
    most = max(prediction.logits)
    weights = [exp(logit - most) for logit in prediction.logits]
    shares = [weight / sum(weights) for weight in weights]
    return shares if abs(shares[prediction.index] - prediction.probability) < 1e-4 else None


def word_pair(words: Sequence[str]) -> str:
    """One word where all texts have it, else what each has: wonderful → dull."""
    same = all(word == words[0] for word in words)
    return words[0] if same else ARROW.join(word or ABSENT for word in words)


def second_text(shown: SideBySide) -> int | None:
    """The first row of the second text: of a pair, or of what an encoder–decoder wrote; None where there is one text.

    A word that was put in stands in one explanation alone, so that each row is asked of all of them.
    """
    for row, words in enumerate(shown.rows):
        pairs = zip(shown.explanations, words, strict=True)
        if any(explanation.words[place].segment > 0 for explanation, places in pairs for place in places):
            return row
    return None


def heading(shown: SideBySide, name: str) -> str:
    """What the scores are, and of which answer or layer."""
    first = shown.explanations[0]
    layers = list(dict.fromkeys(explanation.layers[-1] for explanation in shown.explanations))
    where = "" if name in first.references else f" at layer {' and '.join(map(str, layers))}"
    return f"{name}{where}{_target(shown) if name in first.target_specific else ''}"


def rich(shown: SideBySide) -> RenderableType:
    """The same in colours: each score on its background, all on one scale."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    name = shown.names[0]
    scores = shown.scores(name)
    most = float(np.nanmax(np.abs(scores), initial=0.0)) or 1.0
    table = Table(box=None, pad_edge=False)
    for number, title in enumerate(["word", *map(printable, shown.titles), "change"]):
        table.add_column(Text(title), justify="left" if number == 0 else "right")
    second = second_text(shown)
    for row, (own, change) in enumerate(zip(scores, shown.changed(name), strict=True)):
        if row == second:
            table.add_row(Text(SECOND_TEXT, style="dim"))
        cells = [Text(f" {_number(score)} ", style="dim" if isnan(score) else shade(score / most)) for score in own]
        words = shown.words(row)
        bold = "bold" if len(set(words)) > 1 else ""
        table.add_row(Text(printable(word_pair(words)), style=bold), *cells, Text(_number(change, sign=True)))
    told = Table(box=None, pad_edge=False, show_header=False)
    for line in answers(shown):
        told.add_row(*(Text(printable(cell)) for cell in line))
    foot = [Text(note, style="dim") for note in _foot(shown, name)]
    signed = any(name in explanation.signed for explanation in shown.explanations)
    return Group(Text(), told, Text(), Text(heading(shown, name), style="dim"), table, Text(),
                 Legend(f"{most:.3f}", signed=signed), Text(), *foot)  # fmt: skip


def plot(shown: SideBySide, name: str | None = None, *, ax: Axes | None = None) -> Axes:
    """A row each, the first explanation's bar above."""
    chosen = name or shown.names[0]
    scores = shown.scores(chosen)
    count = len(shown.titles)
    axes = axes_or_new(ax, 6.4, 1.0 + 0.16 * (count + 1) * len(scores))
    high = 0.8 / count
    for number, title in enumerate(shown.titles):
        places = [row - 0.4 + (number + 0.5) * high for row in range(len(scores))]
        values = np.nan_to_num(scores[:, number])
        axes.barh(places, values, height=high, color=LOOKS[number % len(LOOKS)][0], label=title)
    labels = [printable(word_pair(shown.words(row))) for row in range(len(scores))]
    axes.set_yticks(range(len(scores)), labels, fontsize=9)
    for label in axes.get_yticklabels():
        label.set(**VERBATIM)
    axes.invert_yaxis()
    axes.axvline(0, color="0.3", linewidth=0.8)
    axes.set_xlabel(heading(shown, chosen), fontsize=9)
    axes.tick_params(length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    return axes


def _blocks(shown: SideBySide, names: Sequence[str]) -> list[TextBlock]:
    said = answers(shown)
    text_blocks = [TextBlock(lines=[["", *shown.titles], *said])] if said else []
    second = second_text(shown)
    for name in names:
        lines = [["word", *shown.titles, "change"]]
        for row, (own, change) in enumerate(zip(shown.scores(name), shown.changed(name), strict=True)):
            if row == second:
                lines.append([SECOND_TEXT, *[""] * (len(shown.titles) + 1)])
            lines.append([word_pair(shown.words(row)), *map(_number, own), _number(change, sign=True)])
        foot = tuple(_foot(shown, name) if len(names) == 1 else cautions(shown, name))
        text_blocks.append(TextBlock(heading(shown, name), lines=lines, foot=foot))
    return text_blocks


def _target(shown: SideBySide) -> str:
    labels = list(
        dict.fromkeys(explanation.prediction.contrast for explanation in shown.explanations if explanation.prediction)
    )
    return f", for {' and '.join(labels)}" if labels else ""


def cautions(shown: SideBySide, name: str) -> list[str]:
    """What must be known to read the numbers, and what the explanations themselves note."""
    first, notes = shown.explanations[0], []
    labels = list(dict.fromkeys(one.prediction.contrast for one in shown.explanations if one.prediction))
    models = {str(one.provenance.get("model")) for one in shown.explanations}
    target_specific = name in first.target_specific
    if target_specific and len(labels) > 1:
        notes.append(f"They are about different answers ({', '.join(labels)}): their scores do not measure the same.")
    elif target_specific and len(models) > 1:
        notes.append("Each model has a scale of its own: compare the order of the words, not the size of scores.")
    elif not target_specific:
        notes.append("Of each text the scores are shares of a whole: a word also gains where another loses.")
    everywhere = set.intersection(*(set(one.notes) for one in shown.explanations))
    for title, explanation in zip(shown.titles, shown.explanations, strict=True):
        notes += [f"{title}: {note}" for note in explanation.notes if note not in everywhere]
    return [*notes, *(note for note in first.notes if note in everywhere)]


def _foot(shown: SideBySide, name: str) -> list[str]:
    more = ", ".join(one for one in shown.names if one != name)
    return [*cautions(shown, name), *([f"Shown by {name}; there are also {more}."] if more else [])]


def _number(score: float, *, sign: bool = False) -> str:
    return ABSENT if isnan(score) else f"{score:+.3f}" if sign else f"{score:.3f}"


def _probability(prediction: Prediction) -> str:
    return ABSENT if prediction.probability is None else f"{prediction.probability:.3f}"


def side_by_side_section(shown: Shown) -> dict[str, Any] | None:
    """The answers as lines of cells, and the scores of each row by each name."""
    both = shown.only(SideBySide)
    if both is None:
        return None
    return {
        "titles": list(both.titles),
        "answers": answers(both),
        "words": [list(both.words(row)) for row in range(len(both.rows))],
        "second": second_text(both),
        "scores": {name: _numbers(both.scores(name)) for name in both.names},
        "headings": {name: heading(both, name) for name in both.names},
        "cautions": {name: cautions(both, name) for name in both.names},
        "tables": table_data(blocks(both)),
    }


def _numbers(scores: Any) -> list[list[float | None]]:
    return [[None if np.isnan(score) else round(float(score), 9) for score in row] for row in scores]
