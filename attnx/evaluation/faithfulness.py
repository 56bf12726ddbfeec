"""Faithfulness: does the answer hang on the positions that an explanation puts first, more than on any others?

- comprehensiveness: how far the target's score falls when the most relevant positions are blanked (higher is better);
- sufficiency: how far it falls when only they are left (lower is better; DeYoung et al. 2020);
- deletion and insertion: the area under the score while positions go, or come back, the most relevant first.

Each is held against random orders of the same positions of the same texts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch
from torch import nn

from attnx.adapters import PreparedInput, adapter_for
from attnx.arguments import checked
from attnx.attribution import (
    NOTE,
    AskedReferences,
    Baseline,
    Case,
    Named,
    Perturbation,
    asked_references,
    cached_outputs,
    choose_baseline,
    estimate,
    measure,
)
from attnx.errors import InputError
from attnx.evaluation.compare import OnTexts
from attnx.evaluation.evaluation_table import FACTS, RANDOM, Faithfulness, facts
from attnx.evaluation.evaluation_table import gathered_faithfulness as gathered
from attnx.hooks import unwrap_model
from attnx.methods import PAPER_METHODS, scores_for_ranking
from attnx.pipeline import LAST, Call, Request, given_model, takes_pipelines
from attnx.results import Explanation
from attnx.runs import Cells, OutputOptions, RowCallback
from attnx.targets import Score, Target, check_score

Array = np.ndarray[Any, np.dtype[np.float64]]
Unit: TypeAlias = tuple[int, ...]
Order: TypeAlias = tuple[Unit, ...]
"""Units, the most relevant first, each the positions that go together: one, or those of a span."""

FIRST = 4
"""Orders that every text gets: the spread of two pairs is the least that can be told."""
MOST = 20
NARROW = 0.1
"""The standard error of a text's chance, beside the span of its scores, that is narrow enough: over a dozen texts the
error of the mean is a third of that, small beside how texts differ."""


def generator_of(prepared: PreparedInput, seed: int, name: str) -> np.random.Generator:
    """Draws that hang on the seed, the input and what they are for, not on the texts around it."""
    digest = hashlib.blake2b(name.encode(), digest_size=16)
    for key, tensor in sorted(prepared.inputs.items()):
        digest.update(key.encode())
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return np.random.default_rng([seed, int.from_bytes(digest.digest(), "big")])


def random_orders(units: Sequence[Unit], random: np.random.Generator) -> Iterator[Order]:
    """Orders without end, each second one the reverse of the one before."""
    while True:
        order = tuple(units[place] for place in random.permutation(len(units)))
        yield order
        yield order[::-1]


def narrow_enough(values: Sequence[Array], span: float) -> bool:
    """Whether the mean of what orders gave (each a row of metrics) is known well beside the `span` of the scores."""
    if span == 0:
        return True
    whole = len(values) // 2 * 2
    pairs = np.array(values[:whole]).reshape(whole // 2, 2, -1).mean(1)
    error = pairs.std(0, ddof=1) / np.sqrt(len(pairs))
    return bool((error <= NARROW * span).all())


@dataclass(frozen=True, eq=False)
class Curves:
    """The target's score with the first `counts` positions of an order blanked, and with only these left."""

    counts: tuple[int, ...]
    without: Array
    only: Array

    @property
    def shares(self) -> Array:
        return np.array(self.counts) / self.counts[-1]


def order_of(explanation: Explanation, explainer: str, layer: int | None, random: np.random.Generator) -> Order:
    """Units by falling score. Those that tie are put in random order: their own order means nothing.

    Of a signed explainer what speaks against the answer comes last: it did not make it.
    """
    units, row = explanation.units, explanation.scores(explainer, layer)
    scores = scores_for_ranking([row[list(unit)].sum() for unit in units], explanation.digits.get(explainer))
    return tuple(units[place] for place in np.lexsort((random.random(len(units)), -scores)))


def removed_counts(positions: int, steps: int, shares: Sequence[float]) -> tuple[int, ...]:
    """How many units are gone at each point of a curve: a grid of `steps`, and those that `shares` ask for."""
    grid = {round(step * positions / steps) for step in range(steps + 1)}
    return tuple(sorted(grid | {share_count(share, positions) for share in shares}))


def share_count(share: float, positions: int) -> int:
    """A share of a text in whole positions: rounded up, so that it is never none."""
    return min(positions, max(1, int(np.ceil(share * positions - 1e-9))))


def cases_of(call: Call, explanations: Sequence[Explanation]) -> list[Case]:
    """The inputs of a call with what was explained of them."""
    return [
        Case(request.prepared, Target.of(call.model, explanation.prediction, explanation.position))
        for request, explanation in zip(call.requests, explanations, strict=True)
    ]


def without(number: int, order: Order, counts: Sequence[int]) -> Iterator[Perturbation]:
    """The text without the first of an order, for each count."""
    for count in counts:
        yield _removed(number, order[:count])


def variants(number: int, order: Order, counts: Sequence[int]) -> Iterator[Perturbation]:
    """What must be run for the curves of an order: for each count the text without its first, and with only these."""
    for count in counts:
        yield _removed(number, order[:count])
        yield _removed(number, order[count:])


def curves(number: int, order: Order, counts: Sequence[int], scores: Mapping[Perturbation, float]) -> Curves:
    without = [scores[_removed(number, order[:count])] for count in counts]
    only = [scores[_removed(number, order[count:])] for count in counts]
    return Curves(tuple(counts), np.array(without), np.array(only))


def _removed(number: int, units: Order) -> Perturbation:
    return Perturbation(number, tuple(sorted(place for unit in units for place in unit)))


Scores: TypeAlias = Mapping[Perturbation, float]


@dataclass(frozen=True, eq=False)
class Removal:
    """What is removed, what stands in its place, and what is read off the model then."""

    kind: Score
    baseline: Baseline
    seed: int
    random: int | None
    """Random orders for each text; None for as many as it takes."""
    runs: Callable[[int, Order], Iterable[Perturbation]]
    """(number of the text, order) → what must be run."""
    metrics: Callable[[int, Order, Scores], Array]
    """What an order is worth by these scores."""
    exact: bool = True
    """Whether variants are run, and not estimated to first order."""


@dataclass(frozen=True, eq=False)
class Removed:
    """What came of it, for each text."""

    orders: Sequence[Mapping[str, Sequence[Order]]]
    """Explainer → its order; and of chance many."""
    scores: Scores
    """Of all texts: every variant that was run."""

    def drawn(self) -> tuple[int, ...]:
        """Random orders of each text."""
        return tuple(len(order[RANDOM]) for order in self.orders)


def remove(call: Call, explanations: Sequence[Explanation], removal: Removal, *, label: str, progress: bool) -> Removed:
    """Run the variants of all orders together, then of further random orders where chance is not narrow enough."""
    cases = cases_of(call, explanations)
    texts = [_Text.of(number, *pair, removal) for number, pair in enumerate(zip(explanations, cases, strict=True))]
    scores: dict[Perturbation, float] = {}
    waiting, orders = texts, [(text.number, order) for text in texts for order in text.all_orders()]
    while orders:
        runs = dict.fromkeys(run for number, order in orders for run in removal.runs(number, order))
        new = [run for run in runs if run not in scores]
        array = measured(call, cases, new, removal, label=label, progress=progress)
        scores |= zip(new, array.tolist(), strict=True)
        waiting = [text for text in waiting if not text.settled(removal, scores)]
        orders = [(text.number, order) for text in waiting for order in text.further()]
        label = f"{label.removesuffix(MORE)}{MORE}"
    return Removed([text.orders for text in texts], scores)


MORE = ", more random orders"


def blank_of(model: nn.Module, processor: Any, requests: Sequence[Request], named: Named) -> Baseline:
    """What stands for nothing in all of these: what was named, or by the rule for the first of them."""
    model = unwrap_model(model)
    return choose_baseline(model, adapter_for(model), processor, requests[0].prepared, named)


def measured(
    call: Call, cases: Sequence[Case], runs: Sequence[Perturbation], removal: Removal, *, label: str, progress: bool
) -> Array:
    options: dict[str, Any] = {"kind": removal.kind, "baseline": removal.baseline, "label": label, "progress": progress}
    return (measure if removal.exact else estimate)(call.model, call.tokenizer, cases, runs, **options)


@dataclass(frozen=True, eq=False)
class _Text:
    """A text with the orders that are removed of it so far."""

    number: int
    orders: dict[str, list[Order]]
    chance: Iterator[Order]

    @classmethod
    def of(cls, number: int, explanation: Explanation, case: Case, removal: Removal) -> _Text:
        """The order of every method, at the last layer there is, and of every reference; and some for chance."""
        if not case.content:
            raise InputError("a text without content positions has nothing to remove; leave it out")

        def draws(name: str) -> np.random.Generator:
            return generator_of(case.prepared, removal.seed, name)

        layer, names = explanation.layers[-1], (*explanation.methods, *explanation.references)
        chance = random_orders(case.units, draws(RANDOM))
        orders = {name: [order_of(explanation, name, layer, draws(name))] for name in names}
        return cls(number, {**orders, RANDOM: list(islice(chance, removal.random or FIRST))}, chance)

    def all_orders(self) -> Iterator[Order]:
        for several in self.orders.values():
            yield from several

    def settled(self, removal: Removal, scores: Scores) -> bool:
        """Whether no further random orders are wanted."""
        drawn = self.orders[RANDOM]
        if removal.random is not None or len(drawn) >= MOST:
            return True
        own = [scores[run] for order in self.all_orders() for run in removal.runs(self.number, order)]
        return narrow_enough([removal.metrics(self.number, one, scores) for one in drawn], max(own) - min(own))

    def further(self) -> list[Order]:
        """One more pair."""
        pair = list(islice(self.chance, 2))
        self.orders[RANDOM].extend(pair)
        return pair


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
    baseline: Named = None,
    shares: Sequence[float] = SHARES,
    steps: int = 10,
    random: int | None = None,
    seed: int = 0,
    target: Any = None,
    exact: bool = True,
    progress: bool = True,
    run_dir: str | PathLike[str] | None = None,
    **options: Any,
) -> Faithfulness:
    """Measure methods (at `layer`, by default the last) and references alike, beside `random` orders for each text.

    By default as many of these are drawn as each text needs for chance to be known well, 4 to 20. They hang on the
    text and the `seed` alone.
    `score` is the target's probability, logit or log-odds; `baseline` is what stands for nothing (see `blankout`);
    `steps` is the resolution of the curves. Not `exact` no blanked text is run: scores are first-order estimates by
    slopes, and the result says so. Further `options` are those of `explain`. With a folder as `run_dir` the work is
    kept there, and the same call resumes it, as in `compare`.

    >>> model, tokenizer = attnx.load_demo()
    >>> few = {"methods": "rollout", "references": "lrp", "progress": False}
    >>> f = faithfulness(model, tokenizer, ["the keys to the cabinet"], **few)
    >>> f.explainers
    ('rollout', 'lrp')
    """
    given = given_model(model, tokenizer)
    kind = check_score(score, unwrap_model(given.model), "probability")
    if steps < 1 or (random is not None and random < 1) or not all(0 < share <= 1 for share in shares) or not shares:
        raise InputError("steps and random must be at least 1, and shares lie between 0 and 1")
    if seed < 0:
        raise InputError(f"a seed is a whole number from 0, found {seed}")
    keeping, options = OutputOptions.taken(run_dir, options)
    asked = {
        "methods": methods,
        "references": asked_references(references),
        "layer": LAST if layer is None else layer,
        "target": target,
        **options,
    }
    removing = Removing(asked, kind, baseline, tuple(shares), steps, random, seed, exact)
    result: Faithfulness = keeping.result(removing, given, texts, progress=progress)
    return result


@dataclass(frozen=True)
class Removing(OnTexts):
    """The measurement: four numbers and two curves for each explainer of a text, and for chance."""

    name: ClassVar[str] = "faithfulness"
    score: Score = "probability"
    baseline: Named = None
    shares: tuple[float, ...] = SHARES
    steps: int = 10
    random: int | None = None
    seed: int = 0
    exact: bool = True

    def decided(self, model: Any, processor: Any, things: Sequence[Request]) -> dict[str, Any]:
        return {"baseline": blank_of(model, processor, things, self.baseline).name}

    @cached_outputs()
    def cells(
        self, model: Any, processor: Any, things: Sequence[Request], tick: RowCallback, progress: bool
    ) -> Sequence[Cells]:
        call = self.call(model, processor, things)
        explanations = call.in_order("explaining", progress)
        points = [removed_counts(len(item.prepared.units), self.steps, self.shares) for item in things]
        removal = Removal(
            self.score,
            blank_of(model, processor, things, self.baseline),
            self.seed,
            self.random,
            runs=lambda number, order: variants(number, order, points[number]),
            metrics=lambda number, order, scores: _metrics(curves(number, order, points[number], scores), self.shares),
            exact=self.exact,
        )
        removed = remove(call, explanations, removal, label="faithfulness", progress=progress)
        return [
            self._of_text(explanation, number, orders, points[number], removed.scores)
            for number, (explanation, orders) in enumerate(zip(explanations, removed.orders, strict=True))
        ]

    def result(self, cells: Iterable[Cells], left_out: Mapping[str, int]) -> Faithfulness:
        return gathered(
            cells,
            left_out,
            score=self.score,
            baseline="" if self.baseline is None else str(self.baseline),
            seed=self.seed,
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
