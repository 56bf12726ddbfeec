"""A summary of a run: for each label the words that contribute most, and where; and rows whose label is another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from attnx.results import PROVENANCE, Array, Between, Explanation, Rules, TableResult

_WORDS, _EXAMPLES, _REASONS, _FIFTHS = 10, 3, 5, 5
_NO_LABEL = "(no prediction)"


@dataclass(frozen=True)
class WordShare:
    """A word in lower case, over all rows of a group."""

    text: str
    first: int
    """Rows in which it contributes most of all words."""
    rows: int
    """Rows in which it occurs."""
    share: float
    """Its mean share of the scores of all words of a row, over the rows in which it occurs."""
    examples: tuple[int, ...]
    """Some rows in which it contributes most."""


@dataclass(frozen=True)
class Group:
    """Rows with one prediction; among them those whose label in the data is another are a group of their own."""

    label: str
    gold: str | None
    """The data's label, where this group is of rows that have another than the model's."""
    rows: int
    right: int
    wrong: int
    """Of the rows with a label in the data."""
    probability: float | None
    """Mean of the prediction's."""
    words: tuple[WordShare, ...]
    places: tuple[float, ...]
    """Share of the first, second, … fifth of the words of a text; then of special tokens."""


def _five_and_special(places: Sequence[float], _: Any) -> str | None:
    return None if len(places) == 6 else "six shares: one for each fifth of the words, one for special tokens"


@dataclass(frozen=True, eq=False)
class RunSummary(TableResult):
    """Of a run. `s.groups` has the labels, `s.disagreements` the rows where the data has another label."""

    kind: ClassVar[str] = "run summary"
    rules: ClassVar[Rules] = {
        "rows": Between(0),
        "failed": Between(0),
        "groups.*.places": _five_and_special,
        "disagreements.*.places": _five_and_special,
        **PROVENANCE,
    }
    indent: ClassVar[int | None] = 2

    explainer: str
    """The method or reference whose scores are summed up."""
    rows: int
    failed: int
    groups: tuple[Group, ...]
    disagreements: tuple[Group, ...]
    errors: Mapping[str, int] = field(default_factory=dict)
    """Reasons for rows that failed → how many, the commonest first."""
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"RunSummary({self.rows:,} rows, {len(self.groups)} labels, {self.explainer})"


@dataclass
class _Word:
    first: int = 0
    rows: int = 0
    share: float = 0.0
    examples: list[int] = field(default_factory=list)


@dataclass
class _Sums:
    """Of one group of rows."""

    rows: int = 0
    right: int = 0
    wrong: int = 0
    probabilities: list[float] = field(default_factory=list)
    words: dict[str, _Word] = field(default_factory=dict)
    places: Array = field(default_factory=lambda: np.zeros(_FIFTHS + 1))

    def add(
        self, row: Mapping[str, Any], probability: float | None, shares: Mapping[str, float], places: Array
    ) -> None:
        self.rows += 1
        self.right += row["right"] is True
        self.wrong += row["right"] is False
        self.probabilities += [] if probability is None else [probability]
        self.places += places
        first = max(shares, key=lambda word: shares[word], default=None)
        for text, share in shares.items():
            word = self.words.setdefault(text, _Word())
            word.rows += 1
            word.share += share
            if text == first:
                word.first += 1
                word.examples += [row["row"]] * (len(word.examples) < _EXAMPLES)

    def group(self, label: str, gold: str | None) -> Group:
        words = sorted(self.words.items(), key=lambda item: (-item[1].first, -item[1].share, item[0]))[:_WORDS]
        return Group(
            label,
            gold,
            self.rows,
            self.right,
            self.wrong,
            sum(self.probabilities) / len(self.probabilities) if self.probabilities else None,
            tuple(
                WordShare(text, word.first, word.rows, word.share / word.rows, tuple(word.examples))
                for text, word in words
            ),
            tuple((self.places / max(1, self.rows)).tolist()),
        )


def summarize(
    rows: Iterable[tuple[Mapping[str, Any], Explanation | None]], explainer: str, method: str | None, provenance: Any
) -> RunSummary:
    """One pass over the rows, with the explanation of each that has one."""
    labels: dict[str, _Sums] = {}
    disagreements: dict[tuple[str, str], _Sums] = {}
    errors: Counter[str] = Counter()
    count = 0
    for row, explanation in rows:
        count += 1
        if explanation is None:
            errors[row["error"]] += 1
            continue
        shares, places = word_shares(explanation, method)
        prediction = explanation.prediction
        label, probability = (_NO_LABEL, None) if prediction is None else (prediction.predicted, prediction.certainty)
        groups = [labels.setdefault(label, _Sums())]
        if row["right"] is False:
            groups.append(disagreements.setdefault((label, row["gold"]), _Sums()))
        for sums in groups:
            sums.add(row, probability, shares, places)

    def largest(sums: Mapping[Any, _Sums]) -> list[tuple[Any, _Sums]]:
        return sorted(sums.items(), key=lambda item: -item[1].rows)

    return RunSummary(
        explainer=explainer,
        rows=count,
        failed=sum(errors.values()),
        groups=tuple(sums.group(label, None) for label, sums in largest(labels)),
        disagreements=tuple(sums.group(label, gold) for (label, gold), sums in largest(disagreements)),
        errors=dict(errors.most_common(_REASONS)),
        provenance=provenance,
    )


def word_shares(explanation: Explanation, method: str | None) -> tuple[dict[str, float], Array]:
    """The share of each word without punctuation, in lower case, and of each fifth of the text, by size of score.

    Special tokens come last among the fifths; words share what is left of them.
    """
    scores = np.abs(explanation.scores(method))
    total = float(scores.sum()) or 1.0
    places = np.zeros(_FIFTHS + 1)
    places[-1] = scores[explanation.positions.special].sum() / total
    words = explanation.content_words
    sizes = [float(scores[list(word.positions)].sum()) for word in words]
    inside = sum(sizes) or 1.0
    shares: dict[str, float] = {}
    for number, (word, size) in enumerate(zip(words, sizes, strict=True)):
        name = word.text.casefold()
        shares[name] = shares.get(name, 0.0) + size / inside
        places[number * _FIFTHS // len(words)] += size / inside * (1 - places[-1])
    return shares, places
