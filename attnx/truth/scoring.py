"""Every explainer's scores of every input, by one road; what refuses is kept with its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import nn

from attnx.agreement.ties import DIGITS
from attnx.answer.named import split
from attnx.answer.target import Target
from attnx.capturing.watch import unwrapped
from attnx.explaining.seam import Request, explain_prepared
from attnx.explaining.settings import Settings
from attnx.inputs.families import adapter_for
from attnx.references.case import Case
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
    try:
        explained = ask.explanations(explainers.methods) if explainers.methods else []
    except Exception:  # one of them is to blame, and the others are not
        _one_by_one(found, ask)
    else:
        for name in explainers.methods:
            _add_method(found, name, explained)
    cases = [_case(model, processor, one) for one in requests]
    for name, options in explainers.references.items():
        try:
            measured = measure_references(model, processor, cases, {name: options}, progress=progress)[name]
        except Exception as error:
            found.refused[name] = reason(error)
            continue
        if not all(np.isfinite(one.scores).all() for one in measured):
            found.refused[name] = "it gives numbers that are not finite"
            continue
        found.rows[name] = [_scaled(one.scores) for one in measured]
        found.signed += [name] if any(one.signed for one in measured) else []
    return found


@dataclass(frozen=True, eq=False)
class _Asking:
    model: nn.Module
    processor: Any
    requests: Sequence[Request]
    explainers: Explainers
    label: str
    progress: bool

    def explanations(self, methods: Sequence[str]) -> list[Explanation]:
        settings = Settings.of(methods, layer=LAST, normalize=self.explainers.normalize)
        found: dict[int, Explanation] = {}
        with bar(f"{self.label}: methods", len(self.requests), self.progress, " inputs") as shown:
            for number, one in explain_prepared(self.model, self.processor, self.requests, settings):
                found[number] = one
                shown.update(1)
        return [found[number] for number in range(len(self.requests))]


def _one_by_one(found: Scores, ask: _Asking) -> None:
    """Each method by itself; those that refuse are noted."""
    for name in ask.explainers.methods:
        try:
            explained = ask.explanations([name])
        except Exception as error:
            found.refused[name] = reason(error)
        else:
            _add_method(found, name, explained)


def _add_method(found: Scores, name: str, explained: Sequence[Explanation]) -> None:
    without = next((one for one in explained if name not in one.relevance), None)
    if without is not None:
        found.refused[name] = next((note for note in without.notes if name in note), "it was left out")
        return
    found.rows[name] = [one.scores(name) for one in explained]
    found.digits[name] = explained[0].digits.get(name, DIGITS)
    found.signed += [name] if name in explained[0].signed else []
    found.provenance = explained[0].provenance


def _case(model: nn.Module, processor: Any, request: Request) -> Case:
    """The same for references. Without a target it is what the model predicts."""
    wanted, rival = split(request.target)
    if wanted is None:
        return predicted(model, processor, [request.prepared], position=request.position)[0]
    where = request.position
    where = adapter_for(model).explained(model, processor, request.prepared) if where is None else where
    return Case(request.prepared, Target(int(wanted), where, None if rival is None else int(rival)))


def reason(error: Exception) -> str:
    """Why something refuses, in a line."""
    return str(error).strip().split("\n")[0] or type(error).__name__


def _scaled(scores: Array) -> Array:
    """What is measured on a model has no scale of its own, so ties are told by what is largest."""
    most = float(np.abs(scores).max(initial=0.0))
    return scores / most if most > 0 else scores
