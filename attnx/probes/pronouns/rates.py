"""How often the candidate that a mask draws most from is the wanted one, for each method and layer, and by guessing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attnx.agreement import Summary
from attnx.probes.pronouns.outcome import Probe


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
        )


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
