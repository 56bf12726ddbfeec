"""`recommend(model, tokenizer, texts)`: which methods and references are above chance on this model and these texts?

What each method ranks first is removed, and the fall of the target's score is compared with random orders of the same
texts, and with the best method. Removals that several orders share are run once.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from attnx.evaluation.removal import (
    FIRST,
    RANDOM,
    SHARES,
    Order,
    Removal,
    Scores,
    cases_of,
    measured,
    orders_text,
    removal_baseline,
    remove,
    share_count,
    without,
)
from attnx.evaluation.table import FEWEST_INPUTS, MARKS, NOT_SIGNIFICANT, EvaluationTable, interval_text, plural
from attnx.evaluation.task import CollectedRows, EvaluationTask, facts
from attnx.hooks import unwrap_model
from attnx.methods import METHODS, Method, asked_methods
from attnx.pipeline import LAST, Call, Choices, Refused, Request, attempt, given_model, takes_pipelines
from attnx.progress import announce
from attnx.results import Between, Filled, Rules, record_of, unlayered
from attnx.results import Named as NamedRule
from attnx.runs import FACTS, Cells, OutputOptions, RowCallback
from attnx.statistics import LEVEL
from attnx.targets import Score, check_score


@dataclass(frozen=True, eq=False, kw_only=True)
class Recommendation(EvaluationTable):
    """Methods by what removing their first words costs the prediction, compared with chance and with the best.

    `r.above_chance` are those that are significantly above chance, the best first; `explain(…, methods=r)` takes them.

    Example:
        >>> model, tokenizer = attnx.load_demo()
        >>> texts = ["the keys to the cabinet", "the boy near the girls", "the girls", "a letter", "the dogs", "a key"]
        >>> r = recommend(model, tokenizer, texts, methods="rollout", references="lrp", random=2, progress=False)
        >>> Recommendation.from_json(r.to_json()) == r
        True
    """

    kind: ClassVar[str] = "recommendation"
    rules: ClassVar[Rules] = {
        **EvaluationTable.rules,
        "values": Filled(2, named=[RANDOM]),
        "references.*": NamedRule(),
        "layer": Between(1),
        "orders": Between(1),
        "fewest_orders": Between(1),
        "runs": Between(0),
        "forwards.*": Between(0),
    }

    columns: tuple[str, ...] = ("comprehensiveness",)
    """How far the target's score falls without what is ranked first."""
    baseline: str | None = RANDOM
    references: Mapping[str, Mapping[str, Any]]
    """The methods that are measured on the model, with their options."""
    layer: int
    score: str
    replacement: str
    """What replaced what was removed."""
    units: str = "words"
    orders: int = 10
    """Random orders of the text that got the most."""
    runs: int = 0
    """Runs of the model with something removed; the same one is never made twice."""
    forwards: Mapping[str, float] = field(default_factory=dict)
    """Method → plain forwards that it takes for a text of middle length, where that is known."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Methods that nobody named and this model does not support, or that cost too much → why."""
    signed: tuple[str, ...] = ()
    fewest_orders: int | None = field(default=None)
    """Random orders of the text that got the fewest; None where all got as many."""

    @property
    def best(self) -> str | None:
        """The best of those above chance; None where none is."""
        return next(iter(self.above_chance), None)

    @property
    def above_chance(self) -> tuple[str, ...]:
        """Significantly above chance, corrected for the number of methods; the best first."""
        return tuple(name for name in self.ranking() if self.significance(name) == "above chance")

    @property
    def as_good(self) -> tuple[str, ...]:
        """Those above chance that are not significantly different from the best, which is not among them."""
        return tuple(name for name in self.above_chance if name != self.best and not self.below_best(name))

    def __iter__(self) -> Iterator[str]:
        """Over the names above chance."""
        return iter(self.above_chance)

    def below_best(self, method: str) -> bool:
        """Whether a method is significantly different from the one that ranks first, corrected for all pairs.

        The best was chosen by the same texts: any pair could have been this one, so all of them are counted.
        """
        self.array(method)
        best = self.ranking()[0]
        return method != best and self.count >= FEWEST_INPUTS and self.p_value(best, to=method) <= LEVEL

    def summary(self) -> str:
        """The result in a line."""
        if self.count < FEWEST_INPUTS:
            texts = plural(self.count, "text")
            return f"{texts} cannot show which methods are above chance; give {FEWEST_INPUTS} or more."
        if self.best is None:
            return f"None of {_listed(self.ranking())} is significantly different from chance here."
        cost, chance = (f"{self.array(name).mean():.2f}".removeprefix("0") for name in (self.best, RANDOM))
        parts = [f"{self.best}: removing its first {self.units} costs the prediction {cost}, chance {chance}"]
        groups = {
            f"not significantly different from {self.best}": self.as_good,
            **{f"{result} here": self._all_of(result) for result in (NOT_SIGNIFICANT, "below chance")},
        }
        for sentence, names in groups.items():
            parts += [f"{_listed(names)} {'are' if len(names) > 1 else 'is'} {sentence}"] if names else []
        return "; ".join(parts) + "."

    def on_record(self) -> dict[str, Any]:
        """What an explanation that follows it keeps in its provenance."""
        return {
            "summary": self.summary(),
            "above_chance": list(self.above_chance),
            "texts": self.count,
            "layer": self.layer,
            "settings": self.provenance.get("settings", {}),
            "score": self.score,
            "baseline": self.replacement,
            "seed": self.seed,
        }

    def heading(self) -> str:
        return (
            f"Methods on {plural(self.count, 'text')}: the fall of the target's {self.score} without the first "
            f"{self.units}, at layer {self.layer}, blanked with {self.replacement}"
        )

    def lead(self) -> tuple[str, ...]:
        return (self.summary(),)

    def lines(self, columns: tuple[str, ...]) -> list[list[str]]:
        from attnx.views import decimals

        ranking = self.ranking()
        lines = [["", "fall [95 %]", "above chance", "behind the best", "forwards", "result"]]
        for name in (*ranking, RANDOM):
            cell = self.cell(name)
            line = [name, f"{decimals(cell.mean)} {interval_text(cell)}"]
            if name == RANDOM:
                lines.append([*line, "", "", "", ""])
                continue
            beyond, behind = self.difference(name), self.difference(ranking[0], to=name)
            cost = self.forwards.get(name)
            lines.append(
                [
                    *line,
                    f"{decimals(beyond.mean)} {interval_text(beyond)}",
                    "" if name == ranking[0] else f"{decimals(behind.mean)} {interval_text(behind)}",
                    "–" if cost is None else f"{cost:.0f}",
                    self._result_text(name),
                ]
            )
        return lines

    def foot(self) -> tuple[str, ...]:
        lines = [
            "Means over 1, 5, 10, 20 and 50 % of the positions, and over the texts; intervals of 95 %, those of "
            f"differences corrected for all that are compared (signs are flipped). Chance is "
            f"{orders_text(self.fewest_orders, self.orders)}."
        ]
        if self.signed:
            lines.append(f"By sign: {', '.join(self.signed)}.")
        if self.left_out:
            lines.append(f"Left out: {'; '.join(f'{name} ({reason})' for name, reason in self.left_out.items())}.")
        return tuple(lines)

    def __repr__(self) -> str:
        return (
            f"Recommendation({plural(self.count, 'text')}, above chance: {', '.join(self.above_chance) or 'nothing'})"
        )

    def _all_of(self, result: str) -> tuple[str, ...]:
        return tuple(name for name in self.ranking() if self.significance(name) == result)

    def _result_text(self, name: str) -> str:
        significance = self.significance(name)
        if self.count < FEWEST_INPUTS:
            return "too few texts"
        if significance != "above chance":
            return "not significant" if significance == NOT_SIGNIFICANT else f"{MARKS[significance]} {significance}"
        if name == self.best:
            return "+ above chance: the best"
        return f"+ above chance, {'behind' if self.below_best(name) else 'as good as'} the best"


def _listed(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else str(last)


FORWARDS = 50
"""Methods that take more plain forwards for a text of middle length are left out, unless they are named: a method that
is recommended must also be worth its cost on every text that is explained later."""


def affordable(call: Call, any_method: bool, any_reference: bool) -> tuple[Call, dict[str, str]]:
    """The call without what costs too much, where the caller named nothing; and what was left out, with why."""
    middle, every = _middle_length(call), REFERENCES.names() if any_reference else ()
    kept = cheap_references(every, middle, FORWARDS)
    rows = call.settings.methods or ()
    cheap = tuple(row for row in rows if not any_method or (row.forwards(middle) or 0) <= FORWARDS)
    expensive = {name: "references" for name in every if name not in kept}
    expensive |= {row.name: "methods" for row in rows if row not in cheap}
    call = replace(call, settings=replace(call.settings, methods=cheap))
    return replace(call, references={name: {} for name in kept} if any_reference else call.references), {
        name: f"it takes more than {FORWARDS} forwards for {middle} positions; {argument}=({name!r}, …) insists"
        for name, argument in expensive.items()
    }


def supported(call: Call, any_method: bool, any_reference: bool) -> tuple[Call, dict[str, str]]:
    """The call without what nobody named and this model does not support, tried on the longest text; and why not."""
    longest = max(call.requests, key=lambda request: len(request.prepared.positions))
    rows = call.settings.methods or ()
    left_out: dict[str, str] = {}

    def works(name: str, methods: tuple[Method, ...], references: Mapping[str, Mapping[str, Any]]) -> bool:
        settings = replace(call.settings, methods=methods)
        trial = replace(call, requests=[longest], settings=settings, references=references)
        (outcome,) = attempt([trial], lambda calls: [item.in_order() for item in calls])
        if isinstance(outcome, Refused):
            left_out[name] = outcome.reason
        return name not in left_out

    kept = tuple(row for row in rows if not any_method or works(row.name, (row,), {}))
    if not kept:
        raise InputError(f"no method works on this model: {next(iter(left_out.values()))}")
    references = {
        name: options
        for name, options in call.references.items()
        if not any_reference or works(name, kept[:1], {name: options})
    }
    return replace(call, settings=replace(call.settings, methods=kept), references=references), left_out


def forwards_of(methods: Iterable[Method], references: Mapping[str, Any], positions: int) -> dict[str, float]:
    """Method → plain forwards, where that is known."""
    costs = {row.name: row.forwards(positions) for row in methods}
    for name, options in references.items():
        cost = REFERENCES[name].forwards
        costs[name] = None if cost is None else float(cost(positions, **options))
    return {name: cost for name, cost in costs.items() if cost is not None}


def _middle_length(call: Call) -> int:
    return int(np.median([len(request.prepared.positions) for request in call.requests]))


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
    """Find the `methods` (at `layer`, by default the last) and `references` that are above chance on these `texts`.

    What a method ranks first is blanked, and the fall of the target's `score` (by default its probability) is compared
    with random orders of each text. Significance is corrected for the number of methods, and needs six texts.

    Args:
        methods: By default all; what this model does not support, or costs too much, is left out with its reason.
        references: The same for methods that are measured on the model.
        random: Random orders of each text; by default as many as it needs for chance to be known well, 4 to 20.
        progress: Whether progress is shown, and the cost is announced before it is paid.
        run_dir: A folder in which the work is saved and resumed, as in `compare`; the first shard then decides what is
            left out.
        options: Those of `explain`.

    Example:
        >>> model, tokenizer = attnx.load_demo()
        >>> texts = ["the keys to the cabinet", "the boy near the girls", "the girls", "a letter", "the dogs", "a key"]
        >>> r = recommend(model, tokenizer, texts, methods="rollout", references="lrp", random=2, progress=False)
        >>> sorted(r.methods)
        ['lrp', 'rollout']
    """
    given = given_model(model, tokenizer)
    kind = check_score(score, unwrap_model(given.model), "probability")
    if (random is not None and random < 1) or seed < 0:
        raise InputError("random must be at least 1, and a seed is a whole number from 0")
    output_options, options = OutputOptions.taken(run_dir, options)
    options = {
        "methods": METHODS.names() if methods is None else methods,
        "references": {} if references is None else asked_references(references),
        "layer": LAST if layer is None else layer,
        **options,
    }
    task = RecommendationTask(
        options, kind, baseline, random, seed, methods is None, references is None, announced=progress
    )
    result: Recommendation = output_options.result(task, given, texts, progress=progress)
    return result


@dataclass(frozen=True)
class RecommendationTask(EvaluationTask):
    """How far the score of a text falls without what each method, and chance, ranks first."""

    name: ClassVar[str] = "recommendation"
    score: Score = "probability"
    baseline: Named = None
    random: int | None = None
    seed: int = 0
    any_method: bool = False
    """Whether the caller named none, so that what is expensive or not supported may be left out."""
    any_reference: bool = False
    chosen: Mapping[str, Any] = field(default_factory=dict)
    """The methods and references that are measured, once that is decided."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """All others, with why."""
    announced: bool = False
    """Whether the cost is announced before it is paid."""

    def settings(self) -> dict[str, Any]:
        later = ("chosen", "left_out", "announced")
        return {name: value for name, value in super().settings().items() if name not in later}

    def decided(self, model: Any, processor: Any, things: Sequence[Request]) -> dict[str, Any]:
        call, expensive = affordable(self.call(model, processor, things), self.any_method, self.any_reference)
        call, unsupported = supported(call, self.any_method, self.any_reference)
        baseline = removal_baseline(model, processor, things, self.baseline)
        if self.announced:
            announce(_cost_estimate(call, self._removal(baseline, things)))
        methods = [method.name for method in call.settings.methods or ()]
        chosen = {"methods": methods, "references": call.references}
        return {"chosen": chosen, "left_out": {**unsupported, **expensive}, "baseline": baseline.name}

    def call(self, model: Any, processor: Any, things: Sequence[Request]) -> Call:
        return Choices.of(model, **{**self.options, **self.chosen}).call(processor, things)

    @cached_outputs()
    def cells(
        self, model: Any, processor: Any, things: Sequence[Request], tick: RowCallback, progress: bool
    ) -> Sequence[Cells]:
        call = self.call(model, processor, things)
        explanations = call.in_order("explaining", progress)
        removal = self._removal(removal_baseline(model, processor, things, self.baseline), things)
        all_orders, scores = remove(call, explanations, removal, label="removing", progress=progress)
        runs = Counter(score.case for score in scores)
        return [
            {
                **{name: _fall(n, drawn, _counts(things[n]), scores) for name, drawn in orders.items()},
                "random orders": len(orders[RANDOM]),
                "model runs": runs[n],
                "all positions": len(things[n].prepared.positions),
                FACTS: facts(
                    provenance=record_of(explanation),
                    notes=explanation.notes,
                    layer=(explanation.layers or (1,))[-1],
                    units=_unit_name(things[n].prepared),
                    methods=tuple(orders),
                    references=unlayered(explanation),
                    signed=tuple(
                        name for name, scores in explanation.attributions.items() if name in orders and scores.signed
                    ),
                ),
            }
            for n, (explanation, orders) in enumerate(zip(explanations, all_orders, strict=True))
        ]

    def result(self, cells: Iterable[Cells], left_out: Mapping[str, int]) -> Recommendation:
        collected = CollectedRows.of(cells, left_out)
        references: Mapping[str, Any] = self.chosen["references"]
        first, columns = collected.first, collected.columns
        middle = int(np.median(columns["all positions"]))
        return Recommendation(
            values={name: collected.array(name)[:, None] for name in first["methods"]},
            references={name: references[name] for name in first["references"]},
            layer=first["layer"],
            score=self.score,
            replacement=str(self.baseline),
            units=first["units"],
            orders=max(columns["random orders"]),
            fewest_orders=min(columns["random orders"]),
            runs=sum(columns["model runs"]),
            forwards=forwards_of(asked_methods(self.chosen["methods"]), references, middle),
            left_out=self.left_out,
            signed=tuple(first["signed"]),
            seed=self.seed,
            provenance=collected.provenance,
            notes=collected.notes,
        )

    def _removal(self, baseline: Baseline, things: Sequence[Request]) -> Removal:
        counts = [_counts(item) for item in things]
        return Removal(
            self.score,
            baseline,
            self.seed,
            self.random,
            runs=lambda number, order: [
                Perturbation(number),
                *(without(number, order[:count]) for count in counts[number]),
            ],
            metrics=lambda number, order, scores: np.array([_fall(number, [order], counts[number], scores)]),
        )


def _fall(number: int, orders: Sequence[Order], counts: Sequence[int], scores: Scores) -> float:
    """How far the score falls, the mean over shares and orders."""
    left = [[scores[without(number, order[:count])] for count in counts] for order in orders]
    return scores[Perturbation(number)] - float(np.mean(left))


def _unit_name(prepared: PreparedInput) -> str:
    """What is removed."""
    return "segments" if prepared.audio_input is not None else "words" if prepared.boxes is None else "patches"


def _counts(request: Request) -> list[int]:
    """How many units are removed, for each share; a short text has some of them twice, and they count twice."""
    units = request.prepared.units
    return [share_count(share, len(units)) for share in SHARES]


def _cost_estimate(call: Call, removal: Removal) -> str:
    """What it will cost, from a few runs on the text of middle length."""
    request = sorted(call.requests, key=lambda item: len(item.prepared.positions))[len(call.requests) // 2]
    trial = replace(call, requests=[request], references={})
    (case,) = cases_of(trial, trial.in_order())
    runs = [Perturbation(0, (position,)) for position in case.content[:8]]
    measured(trial, [case], runs[:1], removal, label="", progress=False)  # what is done once is not counted
    start = time.perf_counter()
    measured(trial, [case], runs, removal, label="", progress=False)
    seconds = (time.perf_counter() - start) / len(runs)
    methods, texts = len(call.settings.methods or ()) + len(call.references), len(call.requests)
    orders = methods + (removal.random or 2 * FIRST)  # some texts need more, most need fewer
    removals = texts * (1 + len(set(_counts(request))) * orders)
    costs = forwards_of(call.settings.methods or (), call.references, len(request.prepared.positions))
    total = removals + texts * sum(costs.values())
    return (
        f"recommend: {methods} methods on {plural(texts, 'text')}, some {total:,.0f} runs of the model, "
        f"about {duration(total * seconds)}"
    )
