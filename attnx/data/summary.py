"""Sums over a run, a row at a time: memory grows with the words and labels there are, and not with the rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attnx.data.cells import explanation_of
from attnx.data.layout import Layout
from attnx.results.explanation import Explanation
from attnx.results.run_summary import CarryingWord, Group, RunSummary

WORDS = 10
_EXAMPLES = 3
_REASONS = 5
_FIFTHS = 5
_NO_LABEL = "(no answer)"


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
    probabilities: float = 0.0
    with_probability: int = 0
    words: dict[str, _Word] = field(default_factory=dict)
    places: Any = field(default_factory=lambda: np.zeros(_FIFTHS + 1))

    def add(self, number: int, cells: Mapping[str, Any], carried: Mapping[str, float], places: Any) -> None:
        self.rows += 1
        self.right += cells["right"] is True
        self.wrong += cells["right"] is False
        if cells["probability"] is not None:
            self.probabilities += cells["probability"]
            self.with_probability += 1
        self.places += places
        most = max(carried, key=lambda word: carried[word], default=None)
        for text, share in carried.items():
            word = self.words.setdefault(text, _Word())
            word.rows += 1
            word.share += share
            if text == most:
                word.first += 1
                if len(word.examples) < _EXAMPLES:
                    word.examples.append(number)

    def group(self, label: str, gold: str | None) -> Group:
        best = sorted(self.words.items(), key=lambda one: (-one[1].first, -one[1].share, one[0]))[:WORDS]
        return Group(
            label,
            gold,
            self.rows,
            self.right,
            self.wrong,
            self.probabilities / self.with_probability if self.with_probability else None,
            tuple(
                CarryingWord(text, one.first, one.rows, one.share / one.rows, tuple(one.examples)) for text, one in best
            ),
            tuple(float(one) for one in self.places / max(1, self.rows)),
        )


def summarised(rows: Iterable[dict[str, Any]], layout: Layout, count: int, method: str | None) -> RunSummary:
    """One pass over `count` rows."""
    labels: dict[str, _Sums] = {}
    apart: dict[tuple[str, str], _Sums] = {}
    errors: Counter[str] = Counter()
    for cells, explanation in _explained(rows, layout, errors):
        carried, places = carried_by(explanation, method)
        prediction = explanation.prediction
        label = _NO_LABEL if prediction is None else prediction.predicted
        cells = {**cells, "probability": None if prediction is None else prediction.certainty}
        labels.setdefault(label, _Sums()).add(cells["row"], cells, carried, places)
        if cells["right"] is False:
            apart.setdefault((label, cells["gold"]), _Sums()).add(cells["row"], cells, carried, places)
    return RunSummary(
        explainer=method or layout.first or _default(layout),
        rows=count,
        failed=sum(errors.values()),
        groups=tuple(sums.group(label, None) for label, sums in sorted(labels.items(), key=lambda one: -one[1].rows)),
        disagreements=tuple(
            sums.group(label, gold) for (label, gold), sums in sorted(apart.items(), key=lambda one: -one[1].rows)
        ),
        errors=dict(errors.most_common(_REASONS)),
        provenance=layout.provenance,
    )


def carried_by(explanation: Explanation, method: str | None) -> tuple[dict[str, float], Any]:
    """The share of each word without punctuation, in lower case, and of each fifth of the text, by size of score.

    Special tokens come last among the places; words share what is left of them.
    """
    scores = np.abs(explanation.scores(method))
    total = float(scores.sum()) or 1.0
    places = np.zeros(_FIFTHS + 1)
    places[-1] = scores[explanation.positions.special].sum() / total
    words = explanation.content_words
    sizes = [float(scores[list(one.positions)].sum()) for one in words]
    inside = sum(sizes) or 1.0
    carried: dict[str, float] = {}
    for number, (word, size) in enumerate(zip(words, sizes, strict=True)):
        name = word.text.casefold()
        carried[name] = carried.get(name, 0.0) + size / inside
        places[number * _FIFTHS // len(words)] += size / inside * (1 - places[-1])
    return carried, places


def _explained(
    rows: Iterable[dict[str, Any]], layout: Layout, errors: Counter[str]
) -> Iterator[tuple[dict[str, Any], Explanation]]:
    for cells in rows:
        if cells["error"] is not None:
            errors[cells["error"]] += 1
        else:
            yield cells, explanation_of(cells, layout)


def _default(layout: Layout) -> str:
    return "rollout" if "rollout" in layout.methods else layout.methods[0]
