"""An explanation as plain text: for files, pipes, and terminals without colours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from rich.cells import cell_len

from attnx.results import Explanation, chosen_method, layered_method, line
from attnx.views.escaping import isolated, printable
from attnx.views.table import places, written

Array = np.ndarray[Any, np.dtype[Any]]

GAP = "⋯"
"""Stands for words that were left out."""


@dataclass(frozen=True, eq=False)
class WordRows:
    """`scores[row, word]`, and `shares`, the same between −1 and 1: how strongly each is to be shown."""

    labels: tuple[str, ...]
    words: tuple[str, ...]
    scores: Array
    shares: Array
    note: str = ""
    """What was left out of a long text."""
    starts: frozenset[int] = frozenset()
    """Where a second text begins."""

    def shortened(self, most: int) -> WordRows:
        """The `most` words that are strongest in any row; a gap stands for each run of the others."""
        if len(self.words) <= most:
            return self
        kept = strongest(abs(self.shares).max(0), most)
        places: list[int | None] = []
        for index in range(len(self.words)):
            if index in kept:
                places.append(index)
            elif not places or places[-1] is not None:
                places.append(None)
        columns = [-1 if place is None else place for place in places]
        seats = np.maximum.accumulate(columns)  # a gap stands in the text of what is before it
        absent = np.array([place is None for place in places])
        return WordRows(
            self.labels,
            tuple(GAP if place is None else self.words[place] for place in places),
            np.where(absent, 0, self.scores[:, columns]),
            np.where(absent, 0, self.shares[:, columns]),
            f"{reduction_note(most, len(self.words), 'words')}; {GAP} stands for the rest",
            frozenset(_starts([max((start for start in self.starts if start <= index), default=0) for index in seats])),
        )


def named_rows(
    explanation: Explanation, names: Sequence[str], layer: int | None = None, *, content_only: bool = False
) -> WordRows:
    """A row for each method or reference, each on its own scale: they are of different size."""
    rows = [[word.score for word in explanation.by_word(name, layer, content_only=content_only)] for name in names]
    scores = np.array(rows, dtype=float).reshape(len(rows), -1)
    shares = _shares(scores, abs(scores).max(-1, initial=0)[:, None])
    return _word_rows(explanation, tuple(names), scores, shares, content_only=content_only)


def layer_rows(explanation: Explanation, method: str, *, content_only: bool = False) -> WordRows:
    """A row for each layer with the last on top, all on one scale, as in the paper's Figures 2 and 3."""
    layers = explanation.layers[::-1]
    rows = [[word.score for word in explanation.by_word(method, layer, content_only=content_only)] for layer in layers]
    scores = np.array(rows, dtype=float).reshape(len(rows), -1)
    labels = tuple(f"layer {layer}" for layer in layers)
    return _word_rows(
        explanation, labels, scores, _shares(scores, abs(scores).max(initial=0)), content_only=content_only
    )


def strongest(scores: Sequence[float] | Array, most: int) -> list[int]:
    """Where the `most` largest scores stand, in the order of the input; of equals the earlier ones.

    >>> strongest([0.1, 0.4, 0.2, 0.4], 2)
    [1, 3]
    """
    order: list[int] = np.argsort(-np.asarray(scores, dtype=float), kind="stable")[:most].tolist()
    return sorted(order)


def reduction_note(kept: int, count: int, things: str) -> str:
    """A line that says what is missing; nothing when nothing is."""
    return f"the strongest {kept:,} of {count:,} {things}" if kept < count else ""


def _word_rows(
    explanation: Explanation, labels: tuple[str, ...], scores: Array, shares: Array, *, content_only: bool
) -> WordRows:
    words = explanation.content_words if content_only else explanation.words
    starts = frozenset(_starts([word.segment for word in words]))
    return WordRows(labels, tuple(printable(word.text) for word in words), scores, shares, starts=starts)


def _starts(parts: Sequence[int]) -> list[int]:
    """Where a part differs from the one before it."""
    return [place for place in range(1, len(parts)) if parts[place] != parts[place - 1]]


def _shares(scores: Array, most: Any) -> Array:
    shares: Array = scores / np.where(most > 0, most, 1)
    return shares


BAR = 24
FOR_BAR, AGAINST_BAR = "█", "▒"
SECOND_TEXT = "———"
"""Stands between the two texts of a pair."""
PARTS = "parts of the text, each the sum over its tokens:"
"""Stands before those that the caller named."""


def plain(
    explanation: Explanation, method: str | None = None, layer: int | None = None, *, content_only: bool = False
) -> str:
    """The verdict, one line a word, and what is to be known of how the input was read."""
    return "\n".join([plain_row(explanation, method, layer, content_only=content_only), *notes(explanation)])


def plain_row(
    explanation: Explanation, method: str | None = None, layer: int | None = None, *, content_only: bool = False
) -> str:
    """The verdict, and one line a word: its score and a bar, of another kind where the word speaks against."""
    name = chosen_method(explanation, method, layer)
    rows = named_rows(explanation, [name], layer, content_only=content_only)
    exact = explanation.attributions[name].precision
    lines = [answered(explanation) + row_name(explanation, name, layer), judgement(explanation, name, layer)]
    for place, bar in enumerate(_bars(rows.words, rows.scores[0].tolist(), exact)):
        lines += [SECOND_TEXT] if place in rows.starts else []
        lines.append(bar)
    if explanation.spans:
        parts = explanation.by_span(name, layer)
        lines.append(PARTS)
        lines += _bars(tuple(printable(part.text) for part in parts), [part.score for part in parts], exact)
    lines += [f"{FOR_BAR} supports {_target(explanation)}, {AGAINST_BAR} opposes it"] * (
        explanation.attributions[name].signed
    )
    return "\n".join([*lines, *cautions(explanation, [name], layer)])


def _target(explanation: Explanation) -> str:
    prediction = explanation.prediction
    return "the answer" if prediction is None or prediction.target is None else printable(prediction.contrast)


def _bars(labels: tuple[str, ...], scores: Sequence[float], exact: int | None) -> list[str]:
    """A line each: the label, its score, and a bar."""
    decimals, most = places(scores, exact), max(map(abs, scores), default=0.0)
    numbers = [written(score, decimals) for score in scores]
    width = max(map(len, numbers), default=0)
    bars = [
        (FOR_BAR if score >= 0 else AGAINST_BAR) * round(BAR * abs(score) / most) if most > 0 else ""
        for score in scores
    ]
    lines = zip(_column(labels), numbers, bars, strict=True)
    return [f"{label}  {number:>{width}}  {bar}".rstrip() for label, number, bar in lines]


def judgement(explanation: Explanation, name: str, layer: int | None = None, *, with_input: bool = True) -> str:
    """The weightiest remarks on a row, behind its name; what is of the input need be said but once."""
    said = explanation.remarks(name, layer)
    return printable(f"{name}: {line(one for one in said if with_input or not one.of_input)}")


def notes(explanation: Explanation) -> list[str]:
    """What is to be known of how the input was read; of no view left out."""
    return [f"note: {printable(note)}" for note in explanation.notes]


def plain_layers(
    explanation: Explanation, method: str | None = None, width: int | None = None, *, content_only: bool = False
) -> str:
    """One line a word, one column a layer; what is wider than `width` goes on below."""
    name = layered_method(explanation, method)
    rows = layer_rows(explanation, name, content_only=content_only)
    first, *words = _column(("layer", *rows.words))
    scores = rows.scores[::-1].T
    decimals = places(scores, explanation.attributions[name].precision)
    column = 2 + max([len(written(score, decimals)) for score in scores.ravel()] or [4])
    at_once = len(explanation.layers) if width is None else max((width - cell_len(first)) // column, 1)
    headline = f"{answered(explanation)}{name}, {seen_from(explanation)}"
    blocks = [f"{headline}\n{judgement(explanation, name)}"]
    for start in range(0, len(explanation.layers), at_once):
        part = slice(start, start + at_once)
        lines = [first + "".join(f"{layer:>{column}}" for layer in explanation.layers[part])]
        lines += [
            word + "".join(f"{written(score, decimals):>{column}}" for score in row[part])
            for word, row in zip(words, scores, strict=True)
        ]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def answer(explanation: Explanation) -> str:
    """The prediction with its probability, and the target where it is another; nothing for a model without a head."""
    prediction = explanation.prediction
    if prediction is None:
        return ""
    target = f" · target: {prediction.target}" if prediction.target is not None else ""
    return printable(f"{prediction.answer}{target}")


def what_is_said(explanation: Explanation) -> str:
    """What the answer is: a class or token that is predicted, one of several labels that may all hold, or a value."""
    return explanation.prediction.noun if explanation.prediction else ""


def seen_from(explanation: Explanation) -> str:
    return f"as seen from {printable(explanation.explained)}"


def row_name(explanation: Explanation, method: str | None, layer: int | None, head: int | None = None) -> str:
    """Which row of an explanation this is, in words."""
    name = chosen_method(explanation, method, layer, head)
    if explanation.attributions[name].layers is None:
        return f"{name}, measured on the model"
    layer = explanation.layers[-1] if layer is None else layer
    alone = "" if head is None else f", head {head}"
    return f"{name} at layer {layer}{alone}, {seen_from(explanation)}"


def cautions(explanation: Explanation, names: Sequence[str], layer: int | None = None) -> list[str]:
    """What the words do not show: the share of special tokens, ties, and which rows are no attention."""
    measured = [name for name in names if explanation.attributions[name].layers is None]
    blanked = partial(blanked_name, explanation.provenance)
    rows = {name: explanation.row(name, layer) for name in names}
    special = {name: row.special_share for name, row in rows.items() if not row.measured}
    punctuation = {name: row.punctuation_share for name, row in rows.items()}
    ties = {name: row.tied for name, row in rows.items() if not row.measured}
    return [
        *(streams_line(explanation, name, layer) for name in names if explanation.sequences),
        *_held("special tokens", special),
        *_held("punctuation", punctuation),
        *(
            f"{tied:.0%} of the positions tie in {name}: their order means nothing"
            for name, tied in ties.items()
            if tied
        ),
        *([f"measured on the model, not attention: {', '.join(map(blanked, measured))}"] if measured else []),
        *(f"{name}: {printable(account)}" for name, account in accounts(explanation, names)),
    ]


def streams_line(explanation: Explanation, name: str, layer: int | None = None) -> str:
    """How much of a row is from the source of an encoder–decoder, and how much from what it has written; or from a text
    and a picture."""
    shares = explanation.sequence_shares(name, layer)
    told = ", ".join(f"{share:.0%} from the {sequence}" for sequence, share in shares.items())
    if not explanation.split_by_residual(name, layer):
        return f"{name}: {told}" + (" so far" if "output" in shares else "")
    fixed = (
        "for one level reads one stream"
        if explanation.attributions[name].single_layer
        else "by the share of the residual"
    )
    return f"{name}: {told} so far, {fixed}, whatever the text"


def blanked_name(provenance: Mapping[str, Any], reference: str) -> str:
    """A reference, and with what it blanks if it does: another blank gives other numbers."""
    baseline = provenance.get("methods", {}).get(reference, {}).get("baseline")
    return reference if baseline is None else f"{reference} (blanked with {printable(str(baseline))})"


def _held(what: str, shares: Mapping[str, float]) -> list[str]:
    """What share of each row something holds, where it holds any."""
    held = [f"{share:.0%} of {name}" for name, share in shares.items()]
    return [f"{what} hold{'s' if what[-1] != 's' else ''} {', '.join(held)}"] if any(shares.values()) else []


def accounts(explanation: Explanation, names: Sequence[str]) -> list[tuple[str, str]]:
    """What the scores of a reference or a method add up to, where it says so."""
    facts = {name: explanation.attributions[name].diagnostics for name in names}
    return [(name, str(facts[name]["account"])) for name in names if "account" in facts[name]]


def _column(words: tuple[str, ...]) -> list[str]:
    """Words padded to the widest, in the cells of a terminal."""
    width = max(map(cell_len, words), default=0)
    return [isolated(word) + " " * (width - cell_len(word)) for word in words]


def answered(explanation: Explanation) -> str:
    return f"{what_is_said(explanation)}: {answer(explanation)} · " if explanation.prediction else ""
