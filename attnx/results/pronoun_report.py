"""What a data set of pronouns says: how often the mask draws most from whom it should, beside chance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from attnx.agreement.summary import Summary
from attnx.results.fit import PROVENANCE, SUMMARY, Between, Filled, Rising, Rules
from attnx.results.noted import counted
from attnx.results.pronouns import Probe
from attnx.results.result import TableResult
from attnx.results.schema import LATER

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    references: Mapping[str, Summary] = field(default_factory=dict, metadata=LATER)
    """Reference → how often the candidate that adds most to the likelier pronoun is the wanted one."""

    @classmethod
    def of(cls, wanted: str, probes: Sequence[Probe], answers: Sequence[str | None], seed: int = 0) -> Rates:
        """The rates at which `answers` are found; None where a sentence has no answer."""
        asked = [(probe, answer) for probe, answer in zip(probes, answers, strict=True) if answer is not None]

        def share(found: Sequence[str | None]) -> Summary:
            hits = [
                np.nan if one is None else float(one == answer) for one, (_, answer) in zip(found, asked, strict=True)
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
            notes=counted(probes),
            provenance=provenance or {},
        )

    def plot(self) -> Figure:
        """The rates over the layers, beside chance and the nearest candidate."""
        figure: Figure = self._view.plot(self)
        return figure


def _longest(probe: Probe) -> str | None:
    """The candidate of the most positions, which a sum over positions favours; None where two have as many."""
    lengths = [len(one.positions) for one in probe.candidates]
    longest = [one.name for one in probe.candidates if len(one.positions) == max(lengths)]
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
