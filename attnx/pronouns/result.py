"""What a data set of pronouns says: how often the mask draws most from whom it should, beside chance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from attnx.errors import ChoiceError
from attnx.registry import unknown
from attnx.results import (
    PROVENANCE,
    Among,
    Array,
    Between,
    Filled,
    Result,
    Rising,
    Rules,
    Shape,
)

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
    """`probe.relevance["flow"]` is layers × candidates: the relevance of each for the mask, summed over its positions.

    `probe.references["lrp"]` has one number for each candidate, which depends on the prediction: what it adds
    to the likelier pronoun, against the next likely.
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
    """Pronoun → the candidate that it refers to, as the user said."""
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
        """The candidate that the predicted pronoun refers to; None where `implies` does not say."""
        return None if self.predicted is None else self.implies.get(self.predicted)

    @property
    def nearest(self) -> str | None:
        """The candidate with the fewest positions between it and the mask; None where two are as near."""
        return self._best(
            [
                -float(min(abs(self.mask - position) for position in candidate.positions))
                for candidate in self.candidates
            ]
        )

    def top_candidates(self, method: str) -> tuple[str | None, ...]:
        """For each layer the candidate with the most relevance; None where two tie to 1e-9. A reference has one row."""
        return tuple(self._best(row) for row in self._of(method).tolist())

    def verdicts(self, method: str) -> tuple[Verdict, ...]:
        """For each layer, whether the mask draws most from the candidate that the prediction implies."""
        return tuple(self._verdict(name) for name in self.top_candidates(method))

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
            raise ChoiceError(unknown("method", method, every) + " (of those that were requested)")
        return self.relevance[method]

    def _best(self, values: list[float]) -> str | None:
        order = sorted(range(len(values)), key=lambda index: -values[index])
        return None if values[order[0]] - values[order[1]] <= TIE else self.candidates[order[0]].name
