"""The measure of most suites: how high among the words (or patches) stands what is right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attnx.agreement.ties import DIGITS
from attnx.errors import InputError
from attnx.truth.answers import answered_right
from attnx.truth.ranking import fixed_orders, is_first, reciprocal_rank
from attnx.truth.scoring import scores_of
from attnx.truth.suite import Array, Explainers, Given, Known, Measured, Suite


def by_rank(suite: Suite, given: Given, explainers: Explainers) -> Measured:
    """Reciprocal rank and share found first, of all explainers, chance and fixed orders on the same inputs."""
    if suite.questions is None:
        raise InputError(f"suite {suite.name!r} has no questions to rank by; give it some, or a measure of its own")
    known, wrong = answered_right(given.model, given.processor, suite.questions(given), given.rows)
    if not known:
        raise InputError(
            f"suite {suite.name!r}: {type(given.model).__name__} gets none of {wrong} inputs right, so it cannot tell "
            "what its answer hangs on; give a model that does the task, or other data"
        )
    requests = [one.request for one in known]
    found = scores_of(given.model, given.processor, requests, explainers, label=suite.name, progress=given.progress)
    return Measured(
        values={
            name: np.array(
                [
                    _ranks(_by_unit(row, one), one, found.digits.get(name, DIGITS))
                    for row, one in zip(rows, known, strict=True)
                ]
            )
            for name, rows in found.rows.items()
        },
        orders={
            name: np.array([_ranks(fixed_orders(len(one.units))[name], one) for one in known])
            for name in fixed_orders(1)
        },
        refused=found.refused,
        wrong=wrong,
        signed=tuple(found.signed),
        provenance=found.provenance,
    )


def _by_unit(scores: Array, known: Known) -> list[float]:
    """Signed where the explainer is: what speaks against the answer stands last."""
    return [float(scores[list(positions)].sum()) for positions in known.units]


def _ranks(scores: Sequence[float], known: Known, digits: int = DIGITS) -> tuple[float, float]:
    return reciprocal_rank(scores, known.right, digits), is_first(scores, known.right, digits)
