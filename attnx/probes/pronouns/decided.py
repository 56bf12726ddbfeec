"""What decided for the likelier pronoun: references, which know the answer that attention does not.

The answer is a contrast: the likelier pronoun against the next likely one. Where the model can tell *his* from *her*
only by a name, that name must have the highest score (docs/truth.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import nn

from attnx.answer.target import Target
from attnx.explaining.attempt import Refused, attempt
from attnx.explaining.measured import left_out
from attnx.explaining.settings import DEFAULT_REFERENCES
from attnx.probes.pronouns.mask import Masked
from attnx.references.case import Case, Scored
from attnx.references.registry import AskedReferences, asked_references, measure_references
from attnx.results.pronouns import Probe


@dataclass(frozen=True, eq=False)
class Decided:
    """References that were asked for, or those of `explain`."""

    model: nn.Module
    tokenizer: Any
    asked: Mapping[str, Mapping[str, Any]]
    chosen: bool
    """Whether the caller chose them; what nobody asked for may be left out with a note."""

    @classmethod
    def of(cls, model: nn.Module, tokenizer: Any, references: AskedReferences | None) -> Decided:
        chosen = references is not None
        asked = asked_references(references if references is not None else DEFAULT_REFERENCES)
        return cls(model, tokenizer, asked, chosen)

    def added(self, masked: Sequence[Masked], probes: Sequence[Probe], merge: Callable[..., Any]) -> list[Probe]:
        """The same probes with what each candidate adds; a written pronoun is no prediction, and has none."""
        found = list(probes)
        rows = [row for row, one in enumerate(probes) if one.text == masked[row].text and len(one.probabilities) > 1]
        if not self.asked or not rows:
            return found
        cases = [Case(masked[row].prepared, _contrast(masked[row], probes[row])) for row in rows]
        measured = self._measured(cases) if self.chosen else attempt(cases, self._measured)
        for row, scored in zip(rows, measured, strict=True):
            found[row] = (
                replace(probes[row], notes=(*probes[row].notes, left_out(self.asked, scored.reason)))
                if isinstance(scored, Refused)
                else _with(scored, probes[row], merge)
            )
        return found

    def _measured(self, cases: Sequence[Case]) -> list[dict[str, Scored]]:
        """Reference → what it says, for each case."""
        found = measure_references(self.model, self.tokenizer, cases, self.asked)
        return [{name: several[place] for name, several in found.items()} for place in range(len(cases))]


def _contrast(masked: Masked, probe: Probe) -> Target:
    """The likelier pronoun against the next likely one; of two as likely, the one that was named first."""
    ranked = sorted(range(len(masked.token_ids)), key=lambda index: -list(probe.probabilities.values())[index])
    first, second = (masked.token_ids[index] for index in ranked[:2])
    return Target(first, masked.position, second)


def _with(scored: Mapping[str, Scored], probe: Probe, merge: Callable[..., Any]) -> Probe:
    references = {
        name: np.array([merge(one.scores[list(candidate.positions)]) for candidate in probe.candidates])
        for name, one in scored.items()
    }
    facts = {name: dict(one.facts) for name, one in scored.items()}
    return replace(probe, references=references, provenance={**probe.provenance, "references": facts})
