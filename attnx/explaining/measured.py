"""References beside what methods say: measured on the model for the answer that each explanation speaks of.

What the caller chose is measured, or an error. What nobody asked for is left out with a note where it cannot be. Where
no method was named either, the first of them is shown first: what decided, before what was mixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torch import nn

from attnx.answer.target import Target
from attnx.explaining.attempt import Refused, attempt
from attnx.explaining.settings import MEASURED_UP_TO
from attnx.inputs.adapter import Prepared
from attnx.results.explanation import Explanation
from attnx.results.provenance import NOT_KEPT

if TYPE_CHECKING:
    from attnx.references.case import Scored


@dataclass(frozen=True, eq=False)
class Unmeasured:
    """An explanation that waits for its references."""

    number: int
    explanation: Explanation
    prepared: Prepared


@dataclass(frozen=True, eq=False)
class Measuring:
    """The references of one call."""

    model: nn.Module
    processor: Any
    asked: Mapping[str, Mapping[str, Any]]
    chosen: bool
    """Whether the caller chose them."""
    lead: bool
    """Whether the first of them is shown first: so where the caller named no method."""
    progress: bool = False

    def explanations(self, several: Sequence[Unmeasured]) -> Iterator[tuple[int, Explanation]]:
        """The number of each and its explanation with references, or with a note that there are none."""
        found = self._measured(several) if self.chosen else self._if_possible(several)
        yield from zip((one.number for one in several), found, strict=True)

    def _measured(self, several: Sequence[Unmeasured]) -> list[Explanation]:
        from attnx.references.case import Case
        from attnx.references.registry import measure_references  # Captum's road is loaded only for those who take it

        cases = [Case(one.prepared, self._target(one.explanation)) for one in several]
        found = measure_references(self.model, self.processor, cases, self.asked, progress=self.progress)
        return [
            self._led(
                _with_references(one.explanation, {name: scored[place] for name, scored in found.items()}, self.asked)
            )
            for place, one in enumerate(several)
        ]

    def _led(self, explanation: Explanation) -> Explanation:
        return replace(explanation, first=next(iter(self.asked))) if self.lead else explanation

    def _target(self, explanation: Explanation) -> Target:
        return Target.of(self.model, explanation.prediction, explanation.position)

    def _if_possible(self, several: Sequence[Unmeasured]) -> list[Explanation]:
        reasons = [_why_not(one.explanation, self.asked) for one in several]
        able = [one for one, reason in zip(several, reasons, strict=True) if not reason]
        measured = iter(attempt(able, self._measured))
        found = (Refused(reason) if reason else next(measured) for reason in reasons)
        return [
            _without(one.explanation, self.asked, result.reason) if isinstance(result, Refused) else result
            for one, result in zip(several, found, strict=True)
        ]


def reference_record(options: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of a reference: options as they can be saved, of others what they were, and what it tells itself."""
    saved = {
        name: value if isinstance(value, (str, int, float, bool, type(None))) else {NOT_KEPT: repr(value)}
        for name, value in options.items()
    }
    return {**saved, **facts}


def left_out(asked: Iterable[str], reason: str) -> str:
    """The note for references that nobody insisted on."""
    return f"{', '.join(asked)} was left out: {reason}"


def _with_references(
    explanation: Explanation, scored: Mapping[str, Scored], asked: Mapping[str, Mapping[str, Any]]
) -> Explanation:
    """Options and facts go into the provenance."""
    return replace(
        explanation,
        references={name: one.scores for name, one in scored.items()},
        about_answer=explanation.about_answer | scored.keys(),
        signed=explanation.signed | {name for name, one in scored.items() if one.signed},
        notes=(*explanation.notes, *(note for one in scored.values() for note in one.notes)),
        provenance={
            **explanation.provenance,
            "references": {name: reference_record(asked[name], one.facts) for name, one in scored.items()},
        },
    )


def _without(explanation: Explanation, asked: Iterable[str], reason: str) -> Explanation:
    return replace(explanation, notes=(*explanation.notes, left_out(asked, reason)))


def _why_not(explanation: Explanation, asked: Iterable[str]) -> str:
    """Why nothing about the answer is measured that nobody asked for; "" where it is."""
    if explanation.prediction is None:
        return (
            "the model has no head that predicts, so nothing can tell what decided; raw attention, rollout and flow "
            "tell what was mixed, and explain_similarity what makes two embeddings similar"
        )
    if len(explanation.positions) > MEASURED_UP_TO:
        name = next(iter(asked))
        return (
            f"the input has more than {MEASURED_UP_TO} positions; it is measured where {name} is named as a reference"
        )
    return ""
