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
"""In place of words that were left out."""


@dataclass(frozen=True, eq=False)
class WordRows:
    """`scores[row, word]`, and `shares`, the same between −1 and 1: how strongly each is shown."""

    labels: tuple[str, ...]
    words: tuple[str, ...]
    scores: Array
    shares: Array
    note: str = ""
    """What was left out of a long text."""
    starts: frozenset[int] = frozenset()
    """Where a second text begins."""

    def shortened(self, most: int) -> WordRows:
        """The `most` words that are strongest in any row, with a gap for each run of the others."""
        if len(self.words) <= most:
            return self
        kept = strongest(abs(self.shares).max(0), most)
        columns: list[int] = []  # −1 for a gap
        for index in range(len(self.words)):
            if index in kept:
                columns.append(index)
            elif not columns or columns[-1] >= 0:
                columns.append(-1)
        gaps = np.array(columns) < 0
        segments = [
            max((start for start in self.starts if start <= index), default=0)
            for index in np.maximum.accumulate(columns)
        ]  # a gap is in the text of the word before it
        return WordRows(
            self.labels,
            tuple(GAP if index < 0 else self.words[index] for index in columns),
            np.where(gaps, 0, self.scores[:, columns]),
            np.where(gaps, 0, self.shares[:, columns]),
            f"{reduction_note(most, len(self.words), 'words')}; {GAP} stands for the rest",
            frozenset(_starts(segments)),
        )


def named_rows(
    explanation: Explanation, names: Sequence[str], layer: int | None = None, *, content_only: bool = False
) -> WordRows:
    """A row for each method, each on its own scale."""
    labelled = [(name, name, layer) for name in names]
    return _word_rows(explanation, labelled, one_scale=False, content_only=content_only)


def layer_rows(explanation: Explanation, method: str, *, content_only: bool = False) -> WordRows:
    """A row for each layer with the last on top, all on one scale, as in the paper's Figures 2 and 3."""
    labelled = [(f"layer {layer}", method, layer) for layer in explanation.layers[::-1]]
    return _word_rows(explanation, labelled, one_scale=True, content_only=content_only)


def _word_rows(
    explanation: Explanation,
    labelled: Sequence[tuple[str, str, int | None]],
    *,
    one_scale: bool,
    content_only: bool,
) -> WordRows:
    rows = [
        [word.score for word in explanation.by_word(method, layer, content_only=content_only)]
        for _, method, layer in labelled
    ]
    scores = np.array(rows, dtype=float).reshape(len(rows), -1)
    most = abs(scores).max(None if one_scale else -1, initial=0, keepdims=True)
    words = explanation.content_words if content_only else explanation.words
    return WordRows(
        tuple(label for label, *_ in labelled),
        tuple(printable(word.text) for word in words),
        scores,
        scores / np.where(most > 0, most, 1),
        starts=frozenset(_starts([word.segment for word in words])),
    )


def strongest(scores: Sequence[float] | Array, most: int) -> list[int]:
    """Indices of the `most` largest scores, in the order of the input; of equal scores the earlier ones.

    >>> strongest([0.1, 0.4, 0.2, 0.4], 2)
    [1, 3]
    """
    order: list[int] = np.argsort(-np.asarray(scores, dtype=float), kind="stable")[:most].tolist()
    return sorted(order)


def reduction_note(kept: int, count: int, things: str) -> str:
    """What was left out, if anything."""
    return f"the strongest {kept:,} of {count:,} {things}" if kept < count else ""


def _starts(parts: Sequence[int]) -> list[int]:
    """Indices at which a new part begins."""
    return [index for index in range(1, len(parts)) if parts[index] != parts[index - 1]]


BAR = 24
FOR_BAR, AGAINST_BAR = "█", "▒"
SECOND_TEXT = "———"
"""Separates the two texts of a pair."""
PARTS = "parts of the text, each the sum over its tokens:"


def plain(
    explanation: Explanation, method: str | None = None, layer: int | None = None, *, content_only: bool = False
) -> str:
    """The summary, one line a word, and the notes on the input."""
    return "\n".join([plain_row(explanation, method, layer, content_only=content_only), *notes(explanation)])


def plain_row(
    explanation: Explanation, method: str | None = None, layer: int | None = None, *, content_only: bool = False
) -> str:
    """The summary, and one line a word: its score and a bar, of another kind for words that oppose the target."""
    name = chosen_method(explanation, method, layer)
    rows = named_rows(explanation, [name], layer, content_only=content_only)
    precision = explanation.attributions[name].precision
    lines = [answered(explanation) + row_name(explanation, name, layer), judgement(explanation, name, layer)]
    for index, bar in enumerate(bar_lines(rows.words, rows.scores[0].tolist(), precision)):
        lines += [SECOND_TEXT] if index in rows.starts else []
        lines.append(bar)
    if explanation.spans:
        parts = explanation.by_span(name, layer)
        lines.append(PARTS)
        lines += bar_lines(tuple(printable(part.text) for part in parts), [part.score for part in parts], precision)
    lines += [f"{FOR_BAR} supports {_target(explanation)}, {AGAINST_BAR} opposes it"] * (
        explanation.attributions[name].signed
    )
    return "\n".join([*lines, *cautions(explanation, [name], layer)])


def _target(explanation: Explanation) -> str:
    prediction = explanation.prediction
    return "the prediction" if prediction is None or prediction.target is None else printable(prediction.contrast)


def bar_lines(labels: Sequence[str], scores: Sequence[float], precision: int | None) -> list[str]:
    """A line each: the label, its score, and a bar."""
    decimals, most = places(scores, precision), max(map(abs, scores), default=0.0)
    numbers = [written(score, decimals) for score in scores]
    width = max(map(len, numbers), default=0)
    bars = [
        (FOR_BAR if score >= 0 else AGAINST_BAR) * round(BAR * abs(score) / most) if most > 0 else ""
        for score in scores
    ]
    lines = zip(_column(labels), numbers, bars, strict=True)
    return [f"{label}  {number:>{width}}  {bar}".rstrip() for label, number, bar in lines]


def judgement(explanation: Explanation, name: str, layer: int | None = None, *, with_input: bool = True) -> str:
    """The main warnings on a row after its method; those on the input are shown only once."""
    warnings = explanation.remarks(name, layer)
    return printable(f"{name}: {line(warning for warning in warnings if with_input or not warning.of_input)}")


def notes(explanation: Explanation) -> list[str]:
    """The notes on the input, which every view shows."""
    return [f"note: {printable(note)}" for note in explanation.notes]


def plain_layers(
    explanation: Explanation, method: str | None = None, width: int | None = None, *, content_only: bool = False
) -> str:
    """One line a word, one column a layer; layers beyond `width` follow below."""
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


def prediction_noun(explanation: Explanation) -> str:
    """What is predicted: a class, a token, a label of several, or a value."""
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
    """What the words do not show: the share of special tokens, ties, and which rows are not attention."""
    whole_model = [name for name in names if explanation.attributions[name].layers is None]
    baseline = partial(with_baseline, {"methods": {name: explanation.attributions[name].diagnostics for name in names}})
    rows = {name: explanation.row(name, layer) for name in names}
    special = {name: row.special_share for name, row in rows.items() if not row.measured}
    punctuation = {name: row.punctuation_share for name, row in rows.items()}
    ties = {name: row.tied for name, row in rows.items() if not row.measured}
    return [
        *(sequence_line(explanation, name, layer) for name in names if explanation.sequences),
        *_received("special tokens", special),
        *_received("punctuation", punctuation),
        *(
            f"{tied:.0%} of the positions tie in {name}: their order means nothing"
            for name, tied in ties.items()
            if tied
        ),
        *([f"measured on the model, not attention: {', '.join(map(baseline, whole_model))}"] if whole_model else []),
        *(f"{name}: {printable(account)}" for name, account in accounts(explanation, names)),
    ]


def sequence_line(explanation: Explanation, name: str, layer: int | None = None) -> str:
    """The shares of source and output of an encoder–decoder in a row, or of a text and an image."""
    shares = explanation.sequence_shares(name, layer)
    listed = ", ".join(f"{share:.0%} from the {sequence}" for sequence, share in shares.items())
    if not explanation.split_by_residual(name, layer):
        return f"{name}: {listed}" + (" so far" if "output" in shares else "")
    reason = (
        "because one attention block reads one sequence"
        if explanation.attributions[name].single_layer
        else "set by the residual alone"
    )
    return f"{name}: {listed} so far, {reason}, for any text"


def with_baseline(provenance: Mapping[str, Any], method: str) -> str:
    """A method with its baseline, if it has one: another baseline gives other numbers."""
    baseline = provenance.get("methods", {}).get(method, {}).get("baseline")
    return method if baseline is None else f"{method} (blanked with {printable(str(baseline))})"


def _received(noun: str, shares: Mapping[str, float]) -> list[str]:
    listed = ", ".join(f"{share:.0%} of {name}" for name, share in shares.items())
    return [f"{noun} receive{'s' * (noun[-1] != 's')} {listed}"] if any(shares.values()) else []


def accounts(explanation: Explanation, names: Sequence[str]) -> list[tuple[str, str]]:
    """What the scores of a method add up to, where it reports that."""
    facts = {name: explanation.attributions[name].diagnostics for name in names}
    return [(name, str(facts[name]["account"])) for name in names if "account" in facts[name]]


def _column(words: Sequence[str]) -> list[str]:
    """Words padded to the widest, in the cells of a terminal."""
    width = max(map(cell_len, words), default=0)
    return [isolated(word) + " " * (width - cell_len(word)) for word in words]


def answered(explanation: Explanation) -> str:
    return f"{prediction_noun(explanation)}: {answer(explanation)} · " if explanation.prediction else ""
