"""The result: explanations of one text by several models, or of a text before and after a change, word by word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, isnan
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from attnx.errors import ChoiceError, InputError
from attnx.registry import unknown
from attnx.results import PROVENANCE, Array, Change, Explanation, Matched, OfExplanations, Rules, aligned, extent_of
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

_LONGEST = 28
"""Characters of a title: it heads a column of numbers."""


def _words_of_each(rows: Sequence[Matched], result: Any) -> str | None:
    """In every row indices of words of each explanation, or none."""
    sizes = [len(explanation.words) for explanation in result.whole.explanations]
    fits = all(
        len(row) == len(sizes)
        and all(0 <= index < size for indices, size in zip(row, sizes, strict=True) for index in indices)
        for row in rows
    )
    return None if fits else f"rows of {len(sizes)}, each with indices of words of its explanation"


def _an_interval(change: Change, result: Any) -> str | None:
    return None if 0 <= change.start <= change.end else "an interval of the text, its end not before its start"


@dataclass(frozen=True, eq=False)
class SideBySide(OfExplanations):
    """`s.scores()[row, 0]` is the score of a word in the first explanation, `[row, 1]` what it is in the second.

    >>> model, tokenizer = attnx.load_demo()
    >>> e = explain(model, tokenizer, "the key to the cabinets")
    >>> counterfactual(model, tokenizer, e, {"key": "keys"}).titles
    ('before', 'after')
    """

    kind: ClassVar[str] = "side by side"
    rules: ClassVar[Rules] = {"rows": _words_of_each, "changes.*": _an_interval, **PROVENANCE}

    explanations: tuple[Explanation, ...]
    titles: tuple[str, ...]
    """Of each explanation: its model, or before and after."""
    rows: tuple[Matched, ...]
    """For each row and each explanation, the indices of the words that correspond."""
    changes: tuple[Change, ...] = ()
    """What was changed in the first text; empty where the text is the same."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Of the whole; each explanation has its own."""

    def __post_init__(self) -> None:
        if len(self.explanations) < 2 or len(self.titles) != len(self.explanations):
            raise InputError(
                f"side_by_side needs two or more explanations, each with a title; found {len(self.titles)}"
            )
        if any(explanation.image_size is not None for explanation in self.explanations):
            raise InputError("side_by_side compares words, and images have patches: attnx.to_html([…]) shows both")
        if not self.names:
            name = "; ".join(", ".join(explanation.methods) for explanation in self.explanations)
            raise InputError(f"the explanations share no method ({name}); use the same methods for each")

    @property
    def names(self) -> tuple[str, ...]:
        """The methods that all have; the default of the first explanation comes first."""
        first, *others = self.explanations
        main = first.methods[0]
        shared = [name for name in first.methods if all(name in other.methods for other in others)]
        return tuple(sorted(shared, key=lambda name: name != main))

    def words(self, row: int) -> tuple[str, ...]:
        """The words of a row as each text has them; empty where a text has none."""
        return tuple(map(_text_of, self.explanations, self.rows[row]))

    def scores(self, name: str | None = None) -> Array:
        """Sum scores at the last layer over the words of each row.

        Args:
            name: a method, by default the first of `names`.

        Returns:
            Row × explanation; NaN where a text has no such word.
        """
        chosen = self.names[0] if name is None else name
        if chosen not in self.names:
            raise ChoiceError(unknown("method", chosen, self.names) + " (shared by all explanations)")
        sums = [[word.score for word in explanation.by_word(chosen)] for explanation in self.explanations]
        rows = [
            [
                sum(words[index] for index in indices) if indices else np.nan
                for words, indices in zip(sums, row, strict=True)
            ]
            for row in self.rows
        ]
        return np.array(rows, dtype=np.float64).reshape(-1, len(self.explanations))

    def changed(self, name: str | None = None) -> Array:
        """For each row the score of the last explanation minus that of the first; NaN where one has none."""
        scores = self.scores(name)
        change: Array = scores[:, -1] - scores[:, 0]
        return change

    def plot(self, name: str | None = None, *, ax: Axes | None = None) -> Axes:
        """Draw bars in matplotlib, those of one row next to each other."""
        axes: Axes = self._view.plot(self, name, ax=ax)
        return axes

    def __repr__(self) -> str:
        return f"SideBySide({', '.join(self.titles)}; {len(self.rows)} rows, by {', '.join(self.names)})"


def side_by_side(explanations: Sequence[Explanation], titles: Sequence[str] | None = None) -> SideBySide:
    """Compare explanations word by word: of two models, or of one model with other settings or another text.

    Words are aligned by characters, so the explanations may be of different tokenizers.

    Args:
        explanations: two or more.
        titles: by default what distinguishes the explanations: their models, or their texts.

    Example:
        >>> model, tokenizer = attnx.load_demo()
        >>> first = explain(model, tokenizer, "the key to the cabinets", layer=1)
        >>> last = explain(model, tokenizer, "the key to the cabinets", layer=6)
        >>> side_by_side([first, last], ["layer 1", "layer 6"]).scores("rollout").shape
        (5, 2)
    """
    several: list[Any] = list(explanations) if isinstance(explanations, (list, tuple)) else [explanations]
    if len(several) < 2 or not all(isinstance(item, Explanation) for item in several):
        name = ", ".join(type(item).__name__ for item in several) or "none"
        raise InputError(f"side_by_side takes a list of two or more explanations, found {name}")
    named = _titles(several) if titles is None else tuple(map(str, titles))
    return SideBySide(tuple(several), named, () if any(item.image_size for item in several) else aligned(several))


def _titles(explanations: Sequence[Explanation]) -> tuple[str, ...]:
    """The models, or the texts, where all differ; otherwise numbers."""
    models = [
        str(explanation.provenance.get("model", "")).rstrip("/").rpartition("/")[2] for explanation in explanations
    ]
    for names in (models, [_short(explanation.title) for explanation in explanations]):
        if len(set(names)) == len(names) and all(names):
            return tuple(names)
    return tuple(f"{number}. {model}".rstrip(". ") for number, model in enumerate(models, start=1))


def _short(title: str) -> str:
    return title if len(title) <= _LONGEST else f"{title[: _LONGEST - 1]}…"


def _text_of(explanation: Explanation, indices: Sequence[int]) -> str:
    """From the first to the last of some words as the text has them."""
    words = [explanation.words[index] for index in indices]
    spans = [extent_of(explanation, word) for word in words]
    known = [span for span in spans if span is not None]
    if not known or len(known) < len(spans) or len({span.segment for span in known}) > 1:
        return " ".join(word.text for word in words)
    text = explanation.texts[known[0].segment]
    return text[min(span.start for span in known) : max(span.end for span in known)]


ARROW = " → "
ABSENT = "–"
_CLASSES = 5
"""The most classes that have a line each."""


def text(shown: SideBySide) -> str:
    """The predictions, and the words by the default method."""
    return as_text(_blocks(shown, shown.names[:1]))


def blocks(shown: SideBySide) -> list[TextBlock]:
    """The predictions, and the words by each method that all have."""
    return _blocks(shown, shown.names)


def _blocks(shown: SideBySide, names: Sequence[str]) -> list[TextBlock]:
    lines = predictions(shown)
    text_blocks = [TextBlock(lines=[["", *shown.titles], *lines])] if lines else []
    second = second_text(shown)
    for name in names:
        lines = [["word", *shown.titles, "change"]]
        for row, (scores, change) in enumerate(zip(shown.scores(name), shown.changed(name), strict=True)):
            if row == second:
                lines.append([SECOND_TEXT, *[""] * (len(shown.titles) + 1)])
            lines.append([word_pair(shown.words(row)), *map(_number, scores), _number(change, sign=True)])
        foot = tuple(_foot(shown, name) if len(names) == 1 else cautions(shown, name))
        text_blocks.append(TextBlock(heading(shown, name), lines=lines, foot=foot))
    return text_blocks


def rows(shown: SideBySide) -> list[dict[str, Any]]:
    """A row for each method, each row of words, and each explanation."""
    return [
        {"method": name, "row": row, "explanation": title, "word": words[number] or None, "score": float(score)}
        for name in shown.names
        for row, scores in enumerate(shown.scores(name))
        for words in [shown.words(row)]
        for number, (title, score) in enumerate(zip(shown.titles, scores, strict=True))
    ]


def predictions(shown: SideBySide) -> list[list[str]]:
    """A line for each model's prediction, and for the probability of the target, or of each of few classes."""
    known = [explanation.prediction for explanation in shown.explanations if explanation.prediction is not None]
    if len(known) < len(shown.explanations):
        return []
    lines = [["prediction", *(_best_label(prediction) for prediction in known)]]
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


def _best_label(prediction: Prediction) -> str:
    """What the model predicts, which need not be the target."""
    return printable(prediction.predicted.strip() or prediction.predicted)


def class_shares(prediction: Prediction) -> list[float] | None:
    """The probability of each of few exclusive classes; None where the logits mean something else."""
    if prediction.kind != "class" or len(prediction.logits) > _CLASSES or prediction.probability is None:
        return None
    most = max(prediction.logits)
    weights = [exp(logit - most) for logit in prediction.logits]
    shares = [weight / sum(weights) for weight in weights]
    return shares if abs(shares[prediction.index] - prediction.probability) < 1e-4 else None


def word_pair(words: Sequence[str]) -> str:
    """One word where all texts have it, otherwise what each has: wonderful → dull."""
    return words[0] if len(set(words)) == 1 else ARROW.join(word or ABSENT for word in words)


def second_text(shown: SideBySide) -> int | None:
    """The first row of the second text of a pair, or of an encoder–decoder's output; None where there is one text."""
    for row, indices in enumerate(shown.rows):  # an inserted word is in one explanation alone
        words = zip(shown.explanations, indices, strict=True)
        if any(explanation.words[index].segment > 0 for explanation, some in words for index in some):
            return row
    return None


def heading(shown: SideBySide, name: str) -> str:
    """The method, its layer, and its target."""
    first = shown.explanations[0]
    layers = list(dict.fromkeys(explanation.layers[-1] for explanation in shown.explanations if explanation.layers))
    where = "" if first.attributions[name].layers is None else f" at layer {' and '.join(map(str, layers))}"
    targets = " and ".join(_targets(shown)) if first.attributions[name].target_specific else ""
    return f"{name}{where}{targets and f', for {targets}'}"


def _targets(shown: SideBySide) -> list[str]:
    answers = (explanation.prediction for explanation in shown.explanations)
    return list(dict.fromkeys(prediction.contrast for prediction in answers if prediction))


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
    for row, (each, change) in enumerate(zip(scores, shown.changed(name), strict=True)):
        if row == second:
            table.add_row(Text(SECOND_TEXT, style="dim"))
        cells = [Text(f" {_number(score)} ", style="dim" if isnan(score) else shade(score / most)) for score in each]
        words = shown.words(row)
        bold = "bold" if len(set(words)) > 1 else ""
        table.add_row(Text(printable(word_pair(words)), style=bold), *cells, Text(_number(change, sign=True)))
    answers = Table(box=None, pad_edge=False, show_header=False)
    for line in predictions(shown):
        answers.add_row(*(Text(printable(cell)) for cell in line))
    foot = [Text(note, style="dim") for note in _foot(shown, name)]
    signed = any(explanation.attributions[name].signed for explanation in shown.explanations)
    legend = Legend(f"{most:.3f}", signed=signed)
    caption = Text(heading(shown, name), style="dim")
    return Group(Text(), answers, Text(), caption, table, Text(), legend, Text(), *foot)


def plot(shown: SideBySide, name: str | None = None, *, ax: Axes | None = None) -> Axes:
    """A group of bars for each row, the first explanation's bar on top."""
    name = name or shown.names[0]
    scores, count = shown.scores(name), len(shown.titles)
    axes = axes_or_new(ax, 6.4, 1.0 + 0.16 * (count + 1) * len(scores))
    height = 0.8 / count
    for number, title in enumerate(shown.titles):
        centres = [row - 0.4 + (number + 0.5) * height for row in range(len(scores))]
        values = np.nan_to_num(scores[:, number])
        axes.barh(centres, values, height=height, color=LOOKS[number % len(LOOKS)][0], label=title)
    labels = [printable(word_pair(shown.words(row))) for row in range(len(scores))]
    axes.set_yticks(range(len(scores)), labels, fontsize=9, **VERBATIM)
    axes.invert_yaxis()
    axes.axvline(0, color="0.3", linewidth=0.8)
    axes.set_xlabel(heading(shown, name), fontsize=9)
    axes.tick_params(length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    return axes


def cautions(shown: SideBySide, name: str) -> list[str]:
    """How to read the numbers, and what the explanations themselves note."""
    first, targets, notes = shown.explanations[0], _targets(shown), []
    models = {str(explanation.provenance.get("model")) for explanation in shown.explanations}
    target_specific = first.attributions[name].target_specific
    if not target_specific:
        notes.append("The scores of each text are shares of a whole: a word also gains where another loses.")
    elif len(targets) > 1:
        notes.append(f"The targets differ ({', '.join(targets)}): the scores do not measure the same.")
    elif len(models) > 1:
        notes.append("Each model has its own scale: compare the order of the words, not the size of scores.")
    shared = set.intersection(*(set(explanation.notes) for explanation in shown.explanations))
    for title, explanation in zip(shown.titles, shown.explanations, strict=True):
        notes += [f"{title}: {note}" for note in explanation.notes if note not in shared]
    return [*notes, *(note for note in first.notes if note in shared)]


def _foot(shown: SideBySide, name: str) -> list[str]:
    others = ", ".join(other for other in shown.names if other != name)
    return [*cautions(shown, name), *([f"Shown by {name}; also available: {others}."] if others else [])]


def _number(score: float, *, sign: bool = False) -> str:
    return ABSENT if isnan(score) else f"{score:+.3f}" if sign else f"{score:.3f}"


def _probability(prediction: Prediction) -> str:
    return ABSENT if prediction.probability is None else f"{prediction.probability:.3f}"


def side_by_side_section(shown: Shown) -> dict[str, Any] | None:
    """The predictions as lines of cells, and the scores of each row by each method."""
    both = shown.only(SideBySide)
    if both is None:
        return None
    return {
        "titles": list(both.titles),
        "predictions": predictions(both),
        "words": [list(both.words(row)) for row in range(len(both.rows))],
        "second": second_text(both),
        "scores": {
            name: [[None if isnan(score) else round(float(score), 9) for score in row] for row in both.scores(name)]
            for name in both.names
        },
        "headings": {name: heading(both, name) for name in both.names},
        "cautions": {name: cautions(both, name) for name in both.names},
        "tables": table_data(blocks(both)),
    }
