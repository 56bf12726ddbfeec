"""A recommendation followed: what holds is computed as it was measured, the best first, and the record says why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from attnx.errors import InputError
from attnx.explaining.again import settings_on_record
from attnx.explaining.settings import Settings
from attnx.methods.registry import PAPER_METHODS
from attnx.results.explanation import Explanation
from attnx.results.recommendation import Recommendation


@dataclass(frozen=True)
class Recommended:
    """What a recommendation asks of `explain`."""

    options: Mapping[str, Any]
    """Arguments of `explain` that the caller left open: methods, references, and the settings of the measurement."""
    first: str
    record: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, recommendation: Recommendation, config: Any, chosen: Mapping[str, Any]) -> Recommended:
        """An error where nothing holds; a method must be there, also where only references hold.

        What the caller has `chosen` wins, and a note says where it was measured otherwise.
        """
        holds, best = recommendation.holds, recommendation.best
        if best is None:
            raise InputError(f"the recommendation names nothing to explain with: {recommendation.sentence()}")
        methods = tuple(name for name in holds if name not in recommendation.references)
        notes: tuple[str, ...] = ()
        if not methods:
            ranked = [name for name in recommendation.explainers if name not in recommendation.references]
            methods = (*ranked, *PAPER_METHODS)[:1]
            notes = (f"{methods[0]} is there because no method held where the recommendation was made",)
        measured = {
            "layer": recommendation.layer,
            **settings_on_record(recommendation.provenance, methods),
        }
        own = {name: chosen[name] for name in measured if not _left_open(name, chosen)}
        options = {name: value for name, value in measured.items() if name not in own}
        if recommendation.layer == getattr(config, "num_hidden_layers", None):
            options.pop("layer", None)  # the last is what an explanation of all layers shows
        if chosen.get("references") is None:
            options["references"] = {
                name: recommendation.references[name] for name in holds if name in recommendation.references
            }
        notes += _otherwise(own, measured)
        return cls({"methods": methods, **options}, best, recommendation.on_record(), notes)

    def followed(self, explanation: Explanation) -> Explanation:
        """The same explanation, the best in front."""
        return replace(
            explanation,
            first=self.first,
            notes=(*explanation.notes, *self.notes),
            provenance={**explanation.provenance, "recommendation": dict(self.record)},
        )


def _left_open(name: str, chosen: Mapping[str, Any]) -> bool:
    default = getattr(Settings, name, None)
    return bool(chosen.get(name, default) == default)


def _otherwise(own: Mapping[str, Any], measured: Mapping[str, Any]) -> tuple[str, ...]:
    """A note for what the caller chose otherwise than it was measured."""
    other = {name: value for name, value in own.items() if value != measured[name]}
    if not other:
        return ()
    here, there = (", ".join(f"{name}={values[name]!r}" for name in other) for values in (own, measured))
    return (f"the recommendation was measured with {there}; here it is {here}",)
