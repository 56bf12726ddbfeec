"""Every explainer's scores of every input, by one road; what refuses is kept with its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from torch import nn

from attnx.agreement.ties import DIGITS
from attnx.answer.named import split
from attnx.answer.target import Target
from attnx.capturing.watch import unwrapped
from attnx.errors import ChoiceError, InputError
from attnx.explaining.attempt import Refused, attempt
from attnx.explaining.measured import reference_record
from attnx.explaining.seam import Request, explain_prepared
from attnx.explaining.settings import Settings
from attnx.inputs.families import adapter_for
from attnx.references.case import Case, Scored
from attnx.references.case import cases as predicted
from attnx.references.registry import measure_references
from attnx.results.explanation import Explanation
from attnx.results.provenance import provenance
from attnx.running.batches import bar
from attnx.running.plan import LAST
from attnx.truth.suite import Array, Explainers


@dataclass
class Scores:
    """Explainer → a row of scores for each input, in the order of the inputs."""

    rows: dict[str, list[Array]] = field(default_factory=dict)
    digits: dict[str, int] = field(default_factory=dict)
    """Explainer → decimals to which its scores are told apart."""
    signed: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)


def scores_of(
    model: nn.Module, processor: Any, requests: Sequence[Request], explainers: Explainers, *, label: str, progress: bool
) -> Scores:
    """Methods at the last layer, as `explain` has them, and references for the same target."""
    model = unwrapped(model)
    found = Scores(provenance=provenance(model, adapter_for(model).name))
    ask = _Asking(model, processor, requests, explainers, label, progress)
    _add_methods(found, ask)
    _add_references(found, ask)
    return found


@dataclass(frozen=True, eq=False)
class _Asking:
    model: nn.Module
    processor: Any
    requests: Sequence[Request]
    explainers: Explainers
    label: str
    progress: bool

    def of_each(self, methods: Sequence[str]) -> list[list[Explanation]]:
        """For each method the explanations of all inputs, which the methods share."""
        explained = self.explanations(methods, self.requests)
        if any(name not in one.relevance for name in methods for one in explained):
            raise ChoiceError("it was left out")  # asked by itself, it says why
        return [explained] * len(methods)

    def explanations(self, methods: Sequence[str], requests: Sequence[Request]) -> list[Explanation]:
        settings = Settings.of(methods, layer=LAST, normalize=self.explainers.normalize)
        found: dict[int, Explanation] = {}
        with bar(f"{self.label}: methods", len(requests), self.progress, " inputs") as shown:
            for number, one in explain_prepared(self.model, self.processor, requests, settings):
                found[number] = one
                shown.update(1)
        return [found[number] for number in range(len(requests))]

    def measured(self, cases: Sequence[Case], references: Sequence[str]) -> list[list[Scored]]:
        """For each reference the scores of all inputs."""
        asked = {name: self.explainers.references[name] for name in references}
        found = measure_references(self.model, self.processor, cases, asked, progress=self.progress)
        if not all(np.isfinite(one.scores).all() for scored in found.values() for one in scored):
            raise InputError("it gives numbers that are not finite")
        return list(found.values())


def _add_methods(found: Scores, ask: _Asking) -> None:
    tried = dict(zip(ask.explainers.methods, attempt(ask.explainers.methods, ask.of_each), strict=True))
    found.refused |= {name: one.reason for name, one in tried.items() if isinstance(one, Refused)}
    explained = {name: one for name, one in tried.items() if not isinstance(one, Refused)}
    for name, several in explained.items():
        found.rows[name] = [one.scores(name) for one in several]
        found.digits[name] = several[0].digits.get(name, DIGITS)
        found.signed += [name] if name in several[0].signed else []
    if found.refused and explained:  # they were asked one by one, and one record speaks of all
        found.provenance = ask.explanations(list(explained), ask.requests[:1])[0].provenance
    elif explained:
        found.provenance = next(iter(explained.values()))[0].provenance


def _add_references(found: Scores, ask: _Asking) -> None:
    if not ask.explainers.references:
        return
    cases = [_case(ask.model, ask.processor, one) for one in ask.requests]
    records: dict[str, dict[str, Any]] = {}
    for name, options in ask.explainers.references.items():
        (measured,) = attempt([name], partial(ask.measured, cases))
        if isinstance(measured, Refused):
            found.refused[name] = measured.reason
            continue
        found.rows[name] = [_scaled(one.scores) for one in measured]
        found.signed += [name] if any(one.signed for one in measured) else []
        records[name] = reference_record(options, _shared_facts(measured))
    found.provenance = {**found.provenance, "references": records}


def _shared_facts(measured: Sequence[Scored]) -> dict[str, Any]:
    """What was so for all inputs: a blank, a score, a number of steps; not what was measured of one."""
    return {
        name: value
        for name, value in measured[0].facts.items()
        if all(one.facts.get(name) == value for one in measured)
    }


def _case(model: nn.Module, processor: Any, request: Request) -> Case:
    """The same for references. Without a target it is what the model predicts."""
    wanted, rival = split(request.target)
    if wanted is None:
        return predicted(model, processor, [request.prepared], position=request.position)[0]
    where = request.position
    where = adapter_for(model).explained(model, processor, request.prepared) if where is None else where
    return Case(request.prepared, Target(int(wanted), where, None if rival is None else int(rival)))


def _scaled(scores: Array) -> Array:
    """What is measured on a model has no scale of its own, so ties are told by what is largest."""
    most = float(np.abs(scores).max(initial=0.0))
    return scores / most if most > 0 else scores
