"""What a data set of pronouns says: how often the mask draws most from whom it should, beside chance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np

from attnx.errors import ChoiceError
from attnx.registry import unknown
from attnx.results import (
    PROVENANCE,
    SUMMARY,
    Among,
    Array,
    Between,
    Filled,
    Result,
    Rising,
    Rules,
    Shape,
    TableResult,
)
from attnx.statistics import Summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Verdict: TypeAlias = Literal["consistent", "inconsistent", "undecided", "not applicable"]

TIE = 1e-9
"""Flow is exact to so much: a smaller difference is none. Deep flow saturates, and candidates often tie at 1."""


@dataclass(frozen=True)
class Candidate:
    """A candidate as the user wrote it, and where it stands in the input."""

    name: str
    positions: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Probe(Result):
    """`probe.relevance["flow"]` is layers × candidates: what the mask draws from each, summed over its positions.

    `probe.references["lrp"]` has one number for each candidate, which knows the answer: what it adds to the
    likelier pronoun, held against the next likely one.
    """

    kind: ClassVar[str] = "probe"
    rules: ClassVar[Rules] = {
        "mask": Between(0),
        "candidates": Filled(2),
        "candidates.*.positions": Filled(),
        "candidates.*.positions.*": Between(0),
        "probabilities": Filled(),
        "probabilities.*": Between(0, 1),
        "layers": Rising(),
        "relevance": Filled(),
        "relevance.*": Shape("layers candidates"),
        "implies.*": Among("candidates"),
        "references.*": Shape("candidates"),
        **PROVENANCE,
    }

    text: str
    mask: int
    """The position of the mask, or of the pronoun that is written in its place."""
    candidates: tuple[Candidate, ...]
    probabilities: Mapping[str, float]
    """Pronoun → its probability at the mask, by the softmax over the whole vocabulary."""
    layers: tuple[int, ...]
    relevance: Mapping[str, Array]
    implies: Mapping[str, str] = field(default_factory=dict)
    """Pronoun → the candidate that it speaks for, as the user said."""
    references: Mapping[str, Array] = field(default_factory=dict)
    """Reference → a number for each candidate; empty where a pronoun is written, and so nothing is predicted."""
    notes: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(self.relevance)

    @property
    def relative(self) -> dict[str, float]:
        """The probabilities of the pronouns relative to each other: they sum to 1."""
        total = sum(self.probabilities.values())
        return {pronoun: value / total if total > 0 else 0.0 for pronoun, value in self.probabilities.items()}

    @property
    def predicted(self) -> str | None:
        """The likelier pronoun; None where two are equally likely."""
        best = max(self.probabilities.values())
        first = [pronoun for pronoun, value in self.probabilities.items() if value == best]
        return first[0] if len(first) == 1 else None

    @property
    def implied(self) -> str | None:
        """The candidate that the predicted pronoun speaks for; None where `implies` does not say."""
        return None if self.predicted is None else self.implies.get(self.predicted)

    @property
    def nearest(self) -> str | None:
        """The candidate with the fewest positions between it and the mask; None where two are as near."""
        return self._best(
            [-float(min(abs(self.mask - place) for place in candidate.positions)) for candidate in self.candidates]
        )

    def drawn_from(self, method: str) -> tuple[str | None, ...]:
        """For each layer the candidate with the most relevance; None where two tie to 1e-9. A reference has one row."""
        return tuple(self._best(row) for row in self._of(method).tolist())

    def verdicts(self, method: str) -> tuple[Verdict, ...]:
        """For each layer, whether the mask draws most from the candidate that the prediction implies."""
        return tuple(self._verdict(name) for name in self.drawn_from(method))

    def plot(self) -> Figure:
        """Figure 4 for this sentence: bars of the pronouns, and for each method the candidates over the layers."""
        figure: Figure = self._view.plot(self)
        return figure

    def _saved(self) -> dict[str, Any]:
        return super()._saved() | {
            "candidates": {candidate.name: list(candidate.positions) for candidate in self.candidates}
        }

    @classmethod
    def _fields_of(cls, data: Mapping[str, Any]) -> dict[str, Any]:
        result = super()._fields_of(data)
        if isinstance(result.get("candidates"), Mapping):
            result["candidates"] = [
                {"name": name, "positions": places} for name, places in result["candidates"].items()
            ]
        return result

    def __repr__(self) -> str:
        names = ", ".join(candidate.name for candidate in self.candidates)
        names = names if names.isprintable() else repr(names)[1:-1]  # they may steer a terminal
        by = f"candidates {names}, methods {', '.join(self.methods)}"
        return f"Probe({self.text!r}, predicted {self.predicted!r}, {by})"

    def _verdict(self, most: str | None) -> Verdict:
        if self.implied is None:
            return "not applicable"
        if most is None:
            return "undecided"
        return "consistent" if most == self.implied else "inconsistent"

    def _of(self, method: str) -> Array:
        if method in self.references:
            return self.references[method][None]
        if method not in self.relevance:
            every = (*self.relevance, *self.references)
            raise ChoiceError(unknown("method", method, every) + " (of those that were asked for)")
        return self.relevance[method]

    def _best(self, values: list[float]) -> str | None:
        order = sorted(range(len(values)), key=lambda index: -values[index])
        return None if values[order[0]] - values[order[1]] <= TIE else self.candidates[order[0]].name


@dataclass(frozen=True)
class Rates:
    """Shares of the sentences that have a wanted candidate. Ties are undecided: counted, and left out of the share."""

    wanted: str
    sentences: int
    left_out: int
    """Sentences without a wanted candidate: the question does not apply to them."""
    methods: Mapping[str, tuple[Summary, ...]]
    """Method → one summary for each layer."""
    chance: float | None
    """Of a guess with closed eyes."""
    baselines: Mapping[str, Summary]
    references: Mapping[str, Summary] = field(default_factory=dict)
    """Reference → how often the candidate that adds most to the likelier pronoun is the wanted one."""

    @classmethod
    def of(cls, wanted: str, probes: Sequence[Probe], answers: Sequence[str | None], seed: int = 0) -> Rates:
        """The rates at which `answers` are found; None where a sentence has no answer."""
        asked = [(probe, answer) for probe, answer in zip(probes, answers, strict=True) if answer is not None]

        def share(found: Sequence[str | None]) -> Summary:
            hits = [
                np.nan if name is None else float(name == answer)
                for name, (_, answer) in zip(found, asked, strict=True)
            ]
            return Summary.of(np.array(hits, dtype=np.float64), seed=seed)

        methods = {}
        for name in probes[0].methods:
            by_layer = zip(*(probe.drawn_from(name) for probe, _ in asked), strict=True)
            methods[name] = tuple(share(found) for found in by_layer)
        everywhere = [name for name in probes[0].references if all(name in probe.references for probe, _ in asked)]
        return cls(
            wanted=wanted,
            sentences=len(asked),
            left_out=len(probes) - len(asked),
            methods=methods,
            chance=float(np.mean([1 / len(probe.candidates) for probe, _ in asked])) if asked else None,
            baselines={
                "nearest candidate": share([probe.nearest for probe, _ in asked]),
                "most word pieces": share([_longest(probe) for probe, _ in asked]),
                "commonest pronoun's": share(_commonest([probe for probe, _ in asked])),
            },
            references={name: share([probe.drawn_from(name)[0] for probe, _ in asked]) for name in everywhere},
        )


def _one_a_layer(rates: Rates, result: Any) -> str | None:
    """Where no sentence has an answer there is nothing to tell of any layer."""
    layers = result.size("layers")
    fits = all(len(cells) == layers or not (cells or rates.sentences) for cells in rates.methods.values())
    return None if fits and rates.methods else f"methods with {layers} summaries each, one a layer"


def _rates(name: str) -> Rules:
    return {
        name: _one_a_layer,
        f"{name}.sentences": Between(0),
        f"{name}.methods.*.*": SUMMARY,
        f"{name}.baselines": Filled(named=("nearest candidate", "commonest pronoun's")),
        f"{name}.baselines.*": SUMMARY,
        f"{name}.references.*": SUMMARY,
    }


@dataclass(frozen=True, eq=False)
class Report(TableResult):
    """Rates per method and layer: of the right referent, and of the candidate that the model's prediction implies."""

    kind: ClassVar[str] = "pronoun report"
    rules: ClassVar[Rules] = {
        "sentences": Between(0),
        "layers": Rising(),
        **_rates("right"),
        **_rates("implied"),
        "prediction": SUMMARY,
        **PROVENANCE,
    }
    indent: ClassVar[int | None] = 2

    source: str
    sentences: int
    layers: tuple[int, ...]
    right: Rates
    implied: Rates
    prediction: Summary
    """How often the prediction itself implies the right referent; undefined where one of the two is not known."""
    predicted: Mapping[str, int]
    """Pronoun → the number of sentences in which it is the likelier one."""
    mass: float
    """The probability that all pronouns have together, on average."""
    notes: Mapping[str, int] = field(default_factory=dict)
    """What should be known of how sentences were read, such as words outside the vocabulary, and in how many."""
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        answers: Sequence[str | None],
        probes: Sequence[Probe],
        *,
        source: str,
        seed: int = 0,
        provenance: Mapping[str, Any] | None = None,
    ) -> Report:
        """Of the probes of many sentences, and the right referent of each; None where there is none."""
        implied = [one.implied for one in probes]
        agrees = [np.nan if None in pair else float(pair[0] == pair[1]) for pair in zip(answers, implied, strict=True)]
        counts = Counter(one.predicted for one in probes if one.predicted is not None)
        return cls(
            source=source,
            sentences=len(probes),
            layers=probes[0].layers,
            right=Rates.of("the right referent", probes, answers, seed),
            implied=Rates.of("the candidate that the prediction implies", probes, implied, seed),
            prediction=Summary.of(np.array(agrees, dtype=np.float64), seed=seed),
            predicted=dict(counts.most_common()),
            mass=float(np.mean([sum(one.probabilities.values()) for one in probes])),
            notes=dict(Counter(note for probe in probes for note in probe.notes).most_common()),
            provenance=provenance or {},
        )

    def plot(self) -> Figure:
        """The rates over the layers, beside chance and the nearest candidate."""
        figure: Figure = self._view.plot(self)
        return figure


def _longest(probe: Probe) -> str | None:
    """The candidate of the most positions, which a sum over positions favours; None where two have as many."""
    lengths = [len(candidate.positions) for candidate in probe.candidates]
    longest = [candidate.name for candidate in probe.candidates if len(candidate.positions) == max(lengths)]
    return longest[0] if len(longest) == 1 else None


def _commonest(probes: Sequence[Probe]) -> list[str | None]:
    """Each sentence's candidate of the pronoun that is predicted most often: that is right without any attention.

    Forms of a pronoun (he, his, him) go together by their place in a sentence's list.
    """
    places = Counter(list(one.probabilities).index(one.predicted) for one in probes if one.predicted is not None)
    if not places:
        return [None] * len(probes)
    commonest = places.most_common(1)[0][0]
    pronouns = [list(one.probabilities)[commonest : commonest + 1] for one in probes]
    return [one.implies.get(pronoun[0]) if pronoun else None for one, pronoun in zip(probes, pronouns, strict=True)]
