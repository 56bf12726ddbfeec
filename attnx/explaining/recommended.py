"""A recommendation followed: what holds is computed, the best is shown first, and the record says why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from attnx.errors import InputError
from attnx.results.explanation import Explanation
from attnx.results.recommendation import Recommendation
from attnx.running.plan import DEFAULT_METHODS


@dataclass(frozen=True)
class Recommended:
    """What a recommendation asks of `explain`."""

    methods: tuple[str, ...]
    references: Mapping[str, Mapping[str, Any]]
    first: str
    record: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, recommendation: Recommendation) -> Recommended:
        """An error where nothing holds; a method must be there, also where only references hold."""
        holds, best = recommendation.holds, recommendation.best
        if best is None:
            raise InputError(f"the recommendation names nothing to explain with: {recommendation.sentence()}")
        methods = tuple(name for name in holds if name not in recommendation.references)
        notes: tuple[str, ...] = ()
        if not methods:
            ranked = [name for name in recommendation.explainers if name not in recommendation.references]
            methods = (*ranked, *DEFAULT_METHODS)[:1]
            notes = (f"{methods[0]} is there because no method held where the recommendation was made",)
        references = {name: recommendation.references[name] for name in holds if name in recommendation.references}
        return cls(methods, references, best, recommendation.on_record(), notes)

    def followed(self, explanation: Explanation) -> Explanation:
        """The same explanation, the best in front."""
        return replace(
            explanation,
            first=self.first,
            notes=(*explanation.notes, *self.notes),
            provenance={**explanation.provenance, "recommendation": dict(self.record)},
        )
