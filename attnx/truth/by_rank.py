"""The measure of most suites: how high among the words (or patches) stands what is right."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attnx.agreement.ties import DIGITS
from attnx.data.fingerprint import as_setting
from attnx.data.measurement import Measurement
from attnx.data.question import Tick
from attnx.errors import InputError
from attnx.results.gathered import FACTS, Cells, Gathered, facts, with_left_out
from attnx.running.given_model import GivenModel
from attnx.truth.answers import answered_right
from attnx.truth.ranking import fixed_orders, is_first, reciprocal_rank
from attnx.truth.scoring import Scores, scores_of
from attnx.truth.suite import Array, Explainers, Known, Suite, SuiteResult, Trial


def by_rank(suite: Suite, given: Trial, explainers: Explainers) -> SuiteResult:
    """Reciprocal rank and share found first, of all explainers, chance and fixed orders on the same inputs."""
    if suite.questions is None:
        raise InputError(f"suite {suite.name!r} has no questions to rank by; give it some, or a measure of its own")
    known, wrong = answered_right(given.model, given.processor, suite.questions(given), given.rows)
    if not known:
        raise InputError(
            f"suite {suite.name!r}: {type(given.model).__name__} gets none of {wrong} inputs right, so it cannot tell "
            "what its answer hangs on; give a model that does the task, or other data"
        )
    found: SuiteResult = given.keeping.result(
        Ranking(suite.name, explainers, wrong), GivenModel(given.model, given.processor), known, progress=given.progress
    )
    return found


@dataclass(frozen=True)
class Ranking(Measurement[Known]):
    """The measurement: of each input the ranks that explainers, chance and fixed orders give to what is right."""

    name: ClassVar[str] = "truth"
    suite: str
    explainers: Explainers
    wrong: int
    """Inputs that were left out before; for the result."""

    def settings(self) -> dict[str, Any]:
        return {"suite": self.suite, **{name: as_setting(one) for name, one in vars(self.explainers).items()}}

    def cells(self, model: Any, processor: Any, things: Sequence[Known], tick: Tick, progress: bool) -> Sequence[Cells]:
        requests = [one.request for one in things]
        found = scores_of(model, processor, requests, self.explainers, label=self.suite, progress=progress)
        told = {
            "signed": json.dumps(found.signed),
            "refused": json.dumps(found.refused),
            FACTS: facts(provenance=found.provenance),
        }
        return [{**self._ranks(found, number, one), **told} for number, one in enumerate(things)]

    def result(self, cells: Iterable[Cells], left_out: Mapping[str, int]) -> SuiteResult:
        """What refused in one shard has no numbers in any."""
        if left_out:
            raise InputError(f"{with_left_out(f'suite {self.suite!r}', left_out)}; its inputs are measured all or none")
        found = Gathered.of(cells)
        refused = _joined(found.columns["refused"])
        record = found.provenance
        return SuiteResult(
            values={name: found.array(f"of {name}") for name in self._names if name not in refused},
            orders={name: found.array(name) for name in fixed_orders(1)},
            refused=refused,
            wrong=self.wrong,
            signed=tuple(dict.fromkeys(name for one in set(found.columns["signed"]) for name in json.loads(one))),
            provenance={**record, "references": found.shared} if "references" in record else record,
        )

    @property
    def _names(self) -> tuple[str, ...]:
        return (*self.explainers.methods, *self.explainers.references)

    def _ranks(self, found: Scores, number: int, one: Known) -> Cells:
        nothing = np.full(2, np.nan)
        return {
            **{
                f"of {name}": _ranks(_by_unit(found.rows[name][number], one), one, found.digits.get(name, DIGITS))
                if name in found.rows
                else nothing
                for name in self._names
            },
            **{name: _ranks(scores, one) for name, scores in fixed_orders(len(one.units)).items()},
        }


def _joined(several: Sequence[str]) -> dict[str, str]:
    """Explainer → the first reason that it gave."""
    found: dict[str, str] = {}
    for text in dict.fromkeys(several):
        for name, reason in json.loads(text).items():
            found.setdefault(name, reason)
    return found


def _by_unit(scores: Array, known: Known) -> list[float]:
    """Signed where the explainer is: what speaks against the answer stands last."""
    return [float(scores[list(positions)].sum()) for positions in known.units]


def _ranks(scores: Sequence[float], known: Known, digits: int = DIGITS) -> Array:
    return np.array([reciprocal_rank(scores, known.right, digits), is_first(scores, known.right, digits)])
