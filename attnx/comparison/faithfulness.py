"""Faithfulness: does the answer hang on the positions that an explanation puts first, more than on any others?

- comprehensiveness: how far the target's score falls when the most relevant positions are blanked (higher is better);
- sufficiency: how far it falls when only they are left (lower is better; DeYoung et al. 2020);
- deletion and insertion: the area under the score while positions go, or come back, the most relevant first.

Each is held against random orders of the same positions of the same texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, ClassVar

import numpy as np

from attnx.answer.number import Score
from attnx.answer.score import check_score
from attnx.arguments import checked
from attnx.capturing.watch import unwrapped
from attnx.comparison.chance import Array, Order
from attnx.comparison.explained import OnTexts
from attnx.comparison.removal import Curves, curves, removed_counts, share_count, variants
from attnx.comparison.removing import Removal, Scores, blank_of, remove
from attnx.data.keeping import Keeping
from attnx.data.question import Tick
from attnx.errors import InputError
from attnx.explaining.seam import Request
from attnx.methods.registry import PAPER_METHODS
from attnx.references.blank import Named
from attnx.references.estimate import NOTE
from attnx.references.registry import AskedReferences, asked_references
from attnx.references.said import kept_answers
from attnx.results.explanation import Explanation
from attnx.results.faithfulness import RANDOM, Faithfulness, gathered
from attnx.results.gathered import FACTS, Cells, facts
from attnx.running.given_model import given_model, takes_pipelines
from attnx.running.plan import LAST

SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)
"""Of the positions, as DeYoung et al. take them: comprehensiveness and sufficiency are means over these."""


@takes_pipelines("texts")
@checked
def faithfulness(
    model: Any,
    tokenizer: Any = None,
    texts: Any = None,
    *,
    methods: Sequence[str] | str = PAPER_METHODS,
    references: AskedReferences = ("gradient", "blankout"),
    layer: int | None = None,
    score: Score | None = None,
    blank: Named = None,
    shares: Sequence[float] = SHARES,
    steps: int = 10,
    random: int | None = None,
    seed: int = 0,
    target: Any = None,
    exact: bool = True,
    progress: bool = True,
    output: str | PathLike[str] | None = None,
    **options: Any,
) -> Faithfulness:
    """Measure methods (at `layer`, by default the last) and references alike, beside `random` orders for each text.

    By default as many of these are drawn as each text needs for chance to be known well, 4 to 20. They hang on the
    text and the `seed` alone.
    `score` is the target's probability, logit or log-odds; `blank` is what stands for nothing (see `blankout`);
    `steps` is the resolution of the curves. Not `exact` no blanked text is run: scores are first-order estimates by
    slopes, and the result says so. Further `options` are those of `explain`. With a folder as `output` the work is kept
    there, and the same call goes on, as in `compare`.

    >>> model, tokenizer = attnx.load_demo()
    >>> few = {"methods": "rollout", "references": "value_path", "progress": False}
    >>> f = faithfulness(model, tokenizer, ["the keys to the cabinet"], **few)
    >>> f.explainers
    ('rollout', 'value_path')
    """
    given = given_model(model, tokenizer)
    kind = check_score(score, unwrapped(given.model), "probability")
    if steps < 1 or (random is not None and random < 1) or not all(0 < share <= 1 for share in shares) or not shares:
        raise InputError("steps and random must be at least 1, and shares lie between 0 and 1")
    if seed < 0:
        raise InputError(f"a seed is a whole number from 0, found {seed}")
    keeping, options = Keeping.taken(output, options)
    asked = {
        "methods": methods,
        "references": asked_references(references),
        "layer": LAST if layer is None else layer,
        "target": target,
        **options,
    }
    removing = Removing(asked, kind, blank, tuple(shares), steps, random, seed, exact)
    result: Faithfulness = keeping.result(removing, given, texts, progress=progress)
    return result


@dataclass(frozen=True)
class Removing(OnTexts):
    """The measurement: four numbers and two curves for each explainer of a text, and for chance."""

    name: ClassVar[str] = "faithfulness"
    score: Score = "probability"
    blank: Named = None
    shares: tuple[float, ...] = SHARES
    steps: int = 10
    random: int | None = None
    seed: int = 0
    exact: bool = True

    def decided(self, model: Any, processor: Any, things: Sequence[Request]) -> dict[str, Any]:
        return {"blank": blank_of(model, processor, things, self.blank).name}

    @kept_answers()
    def cells(
        self, model: Any, processor: Any, things: Sequence[Request], tick: Tick, progress: bool
    ) -> Sequence[Cells]:
        call = self.call(model, processor, things)
        explanations = call.in_order("explaining", progress)
        points = [removed_counts(len(one.prepared.units), self.steps, self.shares) for one in things]
        removal = Removal(
            self.score,
            blank_of(model, processor, things, self.blank),
            self.seed,
            self.random,
            runs=lambda number, order: variants(number, order, points[number]),
            metrics=lambda number, order, scores: _metrics(curves(number, order, points[number], scores), self.shares),
            exact=self.exact,
        )
        removed = remove(call, explanations, removal, label="faithfulness", progress=progress)
        return [
            self._of_text(one, number, orders, points[number], removed.scores)
            for number, (one, orders) in enumerate(zip(explanations, removed.orders, strict=True))
        ]

    def result(self, cells: Iterable[Cells], left_out: Mapping[str, int]) -> Faithfulness:
        return gathered(
            cells, left_out, score=self.score, blank="" if self.blank is None else str(self.blank), seed=self.seed
        )

    def _estimated(self) -> tuple[str, ...]:
        return () if self.exact else (NOTE.format("each score"),)

    def _of_text(
        self, explanation: Explanation, number: int, orders: Mapping[str, Sequence[Order]], counts: Any, scores: Scores
    ) -> Cells:
        drawn = {name: [curves(number, one, counts, scores) for one in several] for name, several in orders.items()}
        explainers = tuple(name for name in orders if name != RANDOM)
        told = {
            "layer": explanation.layers[-1],
            "explainers": explainers,
            "signed": tuple(name for name in explainers if name in explanation.signed),
        }
        return {
            **{
                name: np.mean([_metrics(one, self.shares) for one in several], axis=0)
                for name, several in drawn.items()
            },
            **{f"deletion {name}": _on_grid(several, "without") for name, several in drawn.items()},
            **{f"insertion {name}": _on_grid(several, "only") for name, several in drawn.items()},
            "random orders": len(orders[RANDOM]),
            FACTS: facts(provenance=explanation.provenance, notes=(*self._estimated(), *explanation.notes), **told),
        }


def _metrics(one: Curves, shares: Sequence[float]) -> Array:
    """Comprehensiveness, sufficiency, deletion and insertion of one order."""
    whole = one.without[0]
    places = [one.counts.index(share_count(share, one.counts[-1])) for share in shares]
    return np.array(
        [
            float(np.mean(whole - one.without[places])),
            float(np.mean(whole - one.only[places])),
            _area(one.without, one.shares),
            _area(one.only, one.shares),
        ]
    )


def _area(scores: Array, shares: Array) -> float:
    return float(((scores[1:] + scores[:-1]) / 2 * np.diff(shares)).sum())


def _on_grid(several: Sequence[Curves], kind: str) -> Array:
    """The mean over the orders of a text, at eleven shares from 0 to 1."""
    grid = np.linspace(0, 1, 11)
    return np.mean([np.interp(grid, one.shares, getattr(one, kind)) for one in several], axis=0)  # type: ignore[no-any-return]
