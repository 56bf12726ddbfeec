"""`recommend(model, tokenizer, texts)`: which methods and references hold on this model and these texts?

Each explainer is asked what it would put first, that is removed, and what it costs the answer is held against random
orders of the same texts, and against the best. Removals that several orders share are run once.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any, ClassVar

import numpy as np

from attnx.adapters import PreparedInput
from attnx.arguments import checked
from attnx.attribution import (
    REFERENCES,
    AskedReferences,
    Baseline,
    Named,
    Perturbation,
    asked_references,
    cached_outputs,
    cheap_references,
)
from attnx.errors import InputError, duration
from attnx.evaluation.compare import OnTexts
from attnx.evaluation.evaluation_table import FACTS, RANDOM, Gathered, Recommendation, facts
from attnx.evaluation.evaluation_table import gathered_recommendation as gathered
from attnx.evaluation.faithfulness import (
    FIRST,
    Order,
    Removal,
    Scores,
    blank_of,
    cases_of,
    measured,
    remove,
    share_count,
    without,
)
from attnx.hooks import unwrap_model
from attnx.methods import METHODS, Method, asked_methods
from attnx.pipeline import LAST, Call, Choices, Refused, Request, attempt, given_model, takes_pipelines
from attnx.progress import announce
from attnx.results import Explanation
from attnx.runs import Cells, OutputOptions, RowCallback
from attnx.targets import Score, check_score

FORWARDS = 50
"""What takes more plain forwards for a text of middle length is left out, unless it is asked for: what
holds must also be worth its price on every text that is explained later."""


def bearable(call: Call, any_method: bool, any_reference: bool) -> tuple[Call, dict[str, str]]:
    """With all that costs a bearable number of runs, where the caller named none; and the others with why."""
    middle, every = middle_length(call), REFERENCES.names() if any_reference else ()
    kept = cheap_references(every, middle, FORWARDS)
    rows = call.settings.methods or ()
    quick = tuple(row for row in rows if not any_method or (row.forwards(middle) or 0) <= FORWARDS)
    dear = {name: "references" for name in every if name not in kept}
    dear |= {row.name: "methods" for row in rows if row not in quick}
    call = replace(call, settings=replace(call.settings, methods=quick))
    return replace(call, references={name: {} for name in kept} if any_reference else call.references), {
        name: f"it takes more than {FORWARDS} forwards for {middle} positions; {argument}=({name!r}, …) insists"
        for name, argument in dear.items()
    }


def able(call: Call, any_method: bool, any_reference: bool) -> tuple[Call, dict[str, str]]:
    """The call without what nobody asked for and this model cannot have, tried on the longest text; and why not."""
    longest = max(call.requests, key=lambda request: len(request.prepared.positions))
    rows = call.settings.methods or ()
    left_out: dict[str, str] = {}

    def works(name: str, methods: tuple[Method, ...], references: Mapping[str, Mapping[str, Any]]) -> bool:
        one = replace(call, requests=[longest], settings=replace(call.settings, methods=methods), references=references)
        (found,) = attempt([one], lambda calls: [one.in_order() for one in calls])
        if isinstance(found, Refused):
            left_out[name] = found.reason
        return name not in left_out

    kept = tuple(row for row in rows if not any_method or works(row.name, (row,), {}))
    if not kept:
        raise InputError(f"no method works on this model: {next(iter(left_out.values()))}")
    first = kept[:1]
    references = {
        name: options
        for name, options in call.references.items()
        if not any_reference or works(name, first, {name: options})
    }
    return replace(call, settings=replace(call.settings, methods=kept), references=references), left_out


def forwards(methods: Iterable[Method], references: Mapping[str, Any], positions: int) -> dict[str, float]:
    """Explainer → plain forwards, where its row says so."""
    found = {row.name: row.forwards(positions) for row in methods}
    for name, options in references.items():
        cost = REFERENCES[name].forwards
        found[name] = None if cost is None else float(cost(positions, **options))
    return {name: cost for name, cost in found.items() if cost is not None}


def middle_length(call: Call) -> int:
    return int(np.median([len(request.prepared.positions) for request in call.requests]))


SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)
"""Of the positions, as DeYoung et al. take them; what is measured is comprehensiveness, the mean over these."""


@takes_pipelines("texts")
@checked
def recommend(
    model: Any,
    tokenizer: Any = None,
    texts: Any = None,
    *,
    methods: Sequence[str] | str | None = None,
    references: AskedReferences | None = None,
    layer: int | None = None,
    score: Score | None = None,
    baseline: Named = None,
    random: int | None = None,
    seed: int = 0,
    progress: bool = True,
    run_dir: str | PathLike[str] | None = None,
    **options: Any,
) -> Recommendation:
    """Which `methods` (at `layer`, by default the last) and `references` hold on these `texts`; by default all.

    What an explainer puts first is blanked, and the fall of the target's `score` (by default its probability) is held
    against `random` orders of each text: by default as many as it needs for chance to be known well, 4 to 20. Verdicts
    are corrected for how many are compared; fewer than six texts give none. What nobody asked for and the model cannot
    have is left out with its reason. With `progress` the cost is said before it is paid. Further `options` are those
    of `explain`. With a folder as `run_dir` the work is kept there, and the same call goes on, as in `compare`; what is
    left out is then decided by the first shard.

    >>> model, tokenizer = attnx.load_demo()
    >>> texts = ["the keys to the cabinet", "the boy near the girls", "the girls", "a letter", "the dogs", "the key"]
    >>> r = recommend(model, tokenizer, texts, methods="rollout", references="lrp", random=2, progress=False)
    >>> sorted(r.explainers)
    ['rollout', 'lrp']
    """
    given = given_model(model, tokenizer)
    kind = check_score(score, unwrap_model(given.model), "probability")
    if (random is not None and random < 1) or seed < 0:
        raise InputError("random must be at least 1, and a seed is a whole number from 0")
    keeping, options = OutputOptions.taken(run_dir, options)
    asked = {
        "methods": METHODS.names() if methods is None else methods,
        "references": {} if references is None else asked_references(references),
        "layer": LAST if layer is None else layer,
        **options,
    }
    choosing = Choosing(
        asked, kind, baseline, random, seed, any_method=methods is None, any_reference=references is None, told=progress
    )
    result: Recommendation = keeping.result(choosing, given, texts, progress=progress)
    return result


@dataclass(frozen=True)
class Choosing(OnTexts):
    """The measurement: how far the score of a text falls without what each explainer, and chance, puts first."""

    name: ClassVar[str] = "recommendation"
    score: Score = "probability"
    baseline: Named = None
    random: int | None = None
    seed: int = 0
    any_method: bool = False
    """Whether the caller named none, so that what is dear, or not to be had, may be left out."""
    any_reference: bool = False
    chosen: Mapping[str, Any] = field(default_factory=dict)
    """The methods and references that are measured, once that is decided."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """All others, with why."""
    told: bool = False
    """Whether the cost is said before it is paid."""

    def settings(self) -> dict[str, Any]:
        return {name: value for name, value in super().settings().items() if name not in ("chosen", "left_out", "told")}

    def decided(self, model: Any, processor: Any, things: Sequence[Request]) -> dict[str, Any]:
        call, dear = bearable(self.call(model, processor, things), self.any_method, self.any_reference)
        call, unable = able(call, self.any_method, self.any_reference)
        baseline = blank_of(model, processor, things, self.baseline)
        if self.told:
            announce(_foresight(call, self._removal(baseline, things)))
        methods = [method.name for method in call.settings.methods or ()]
        chosen = {"methods": methods, "references": call.references}
        return {"chosen": chosen, "left_out": {**unable, **dear}, "baseline": baseline.name}

    def call(self, model: Any, processor: Any, things: Sequence[Request]) -> Call:
        return Choices.of(model, **{**self.options, **self.chosen}).call(processor, things)

    @cached_outputs()
    def cells(
        self, model: Any, processor: Any, things: Sequence[Request], tick: RowCallback, progress: bool
    ) -> Sequence[Cells]:
        call = self.call(model, processor, things)
        explanations = call.in_order("explaining", progress)
        removal = self._removal(blank_of(model, processor, things, self.baseline), things)
        removed = remove(call, explanations, removal, label="removing", progress=progress)
        runs = Counter(score.case for score in removed.scores)
        return [
            {
                **{name: _fall(n, several, _counts(things[n]), removed.scores) for name, several in orders.items()},
                "random orders": len(orders[RANDOM]),
                "model runs": runs[n],
                "all positions": len(things[n].prepared.positions),
                FACTS: _facts(explanation, things[n], orders),
            }
            for n, (explanation, orders) in enumerate(zip(explanations, removed.orders, strict=True))
        ]

    def result(self, cells: Iterable[Cells], left_out: Mapping[str, int]) -> Recommendation:
        found = Gathered.of(cells, left_out)
        references: Mapping[str, Any] = self.chosen["references"]
        middle = int(np.median(found.columns["all positions"]))
        return gathered(
            found,
            references={name: references[name] for name in found.first["references"]},
            score=self.score,
            baseline=str(self.baseline),
            forwards=forwards(asked_methods(self.chosen["methods"]), references, middle),
            left_out=self.left_out,
            seed=self.seed,
        )

    def _removal(self, baseline: Baseline, things: Sequence[Request]) -> Removal:
        counts = [_counts(item) for item in things]
        return Removal(
            self.score,
            baseline,
            self.seed,
            self.random,
            runs=lambda number, order: [Perturbation(number), *without(number, order, counts[number])],
            metrics=lambda number, order, scores: np.array([_fall(number, [order], counts[number], scores)]),
        )


def _facts(explanation: Explanation, request: Request, orders: Mapping[str, Any]) -> dict[str, Any]:
    return facts(
        provenance=explanation.provenance,
        notes=explanation.notes,
        layer=explanation.layers[-1],
        units=_units(request.prepared),
        explainers=tuple(orders),
        references=tuple(explanation.references),
        signed=tuple(name for name in orders if name in explanation.signed),
    )


def _fall(number: int, orders: Sequence[Order], counts: Sequence[int], scores: Scores) -> float:
    """How far the score falls, the mean over shares and orders."""
    left = [[scores[perturbation] for perturbation in without(number, order, counts)] for order in orders]
    return scores[Perturbation(number)] - float(np.mean(left))


def _units(prepared: PreparedInput) -> str:
    """What is removed."""
    return "stretches of time" if prepared.audio_input is not None else "words" if prepared.boxes is None else "patches"


def _counts(request: Request) -> list[int]:
    """How many units are removed, for each share; a short text has some of them twice, and they count twice."""
    units = request.prepared.units
    return [share_count(share, len(units)) for share in SHARES]


def _foresight(call: Call, removal: Removal) -> str:
    """What it will cost, from a few runs on the text of middle length."""
    request = sorted(call.requests, key=lambda one: len(one.prepared.positions))[len(call.requests) // 2]
    few = replace(call, requests=[request], references={})
    (case,) = cases_of(few, few.in_order())
    tried = [Perturbation(0, (place,)) for place in case.content[:8]]
    measured(few, [case], tried[:1], removal, label="", progress=False)  # what is done once is not counted
    start = time.perf_counter()
    measured(few, [case], tried, removal, label="", progress=False)
    each = (time.perf_counter() - start) / len(tried)
    explainers, texts = len(call.settings.methods or ()) + len(call.references), len(call.requests)
    orders = explainers + (removal.random or 2 * FIRST)  # some texts need more, most need fewer
    removals = texts * (1 + len(set(_counts(request))) * orders)
    own = forwards(call.settings.methods or (), call.references, len(request.prepared.positions))
    runs = removals + texts * sum(own.values())
    return (
        f"recommend: {explainers} explainers on {texts} text{'s' * (texts > 1)}, some {runs:,.0f} runs of the model, "
        f"about {duration(runs * each)}"
    )
