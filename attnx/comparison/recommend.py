"""`recommend(model, tokenizer, texts)`: which methods and references hold on this model and these texts?

Each explainer is asked what it would put first, that is removed, and what it costs the answer is held against random
orders of the same texts, and against the best. Removals that several orders share are run once.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from torch import nn

from attnx.answer.number import Score
from attnx.answer.score import check_score
from attnx.arguments import checked
from attnx.capturing.watch import unwrapped
from attnx.comparison.chance import FIRST, Order
from attnx.comparison.removal import cases_of, share_count, without
from attnx.comparison.removing import Removal, Scores, measured, remove
from attnx.errors import InputError
from attnx.explaining.attempt import Refused, attempt
from attnx.explaining.call import Call
from attnx.inputs.families import adapter_for
from attnx.methods.method import Method, duration
from attnx.methods.registry import METHODS
from attnx.references.blank import Named, choose_blank
from attnx.references.registry import REFERENCES, Asked, asked_references, cheap_references
from attnx.references.variant import Variant
from attnx.results.recommendation import Recommendation
from attnx.running.batches import announce
from attnx.running.plan import LAST

SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)
"""Of the positions, as DeYoung et al. take them; what is measured is comprehensiveness, the mean over these."""

FORWARDS = 50
"""What takes more plain forwards for a text of middle length is left out, unless it is asked for: what
holds must also be worth its price on every text that is explained later."""


@checked
def recommend(
    model: nn.Module,
    tokenizer: Any,
    texts: Any,
    *,
    methods: Sequence[str] | str | None = None,
    references: Asked | None = None,
    layer: int | None = None,
    score: Score | None = None,
    blank: Named = None,
    random: int | None = None,
    seed: int = 0,
    progress: bool = True,
    **options: Any,
) -> Recommendation:
    """Which `methods` (at `layer`, by default the last) and `references` hold on these `texts`; by default all.

    What an explainer puts first is blanked, and the fall of the target's `score` (by default its probability) is held
    against `random` orders of each text: by default as many as it needs for chance to be known well, 4 to 20. Verdicts
    are corrected for how many are compared; fewer than six texts give none. What nobody asked for and the model cannot
    have is left out with its reason. With `progress` the cost is said before it is paid. Further `options` are those
    of `explain`.

    >>> model, tokenizer = attnx.load_demo()
    >>> texts = ["the keys to the cabinet", "the boy near the girls", "the girls", "a letter", "the dogs", "the key"]
    >>> r = recommend(model, tokenizer, texts, methods="rollout", references="value_path", random=2, progress=False)
    >>> sorted(r.explainers)
    ['rollout', 'value_path']
    """
    model = unwrapped(model)
    kind = check_score(score, model, "probability")
    if (random is not None and random < 1) or seed < 0:
        raise InputError("random must be at least 1, and a seed is a whole number from 0")
    named = {} if references is None else asked_references(references)
    asked = METHODS.names() if methods is None else methods
    call = Call.of(
        model, tokenizer, texts, methods=asked, references=named, layer=LAST if layer is None else layer, **options
    )
    call, dear = _bearable(call, methods is None, references is None)
    call, unable = _able(call, methods is None, references is None)
    chosen = choose_blank(model, adapter_for(model), tokenizer, call.requests[0].prepared, blank)
    counts = [_counts(one.prepared.units) for one in call.requests]
    removal = Removal(
        kind,
        chosen,
        seed,
        random,
        runs=lambda number, order: [Variant(number), *without(number, order, counts[number])],
        metrics=lambda number, order, scores: np.array([_fall(number, [order], counts[number], scores)]),
    )
    if progress:
        announce(_foresight(call, removal))
    explanations = call.in_order("explaining", progress)
    removed = remove(call, explanations, removal, label="removing", progress=progress)
    middle = _middle_length(call)
    return Recommendation(
        values={
            name: np.array([_fall(n, one[name], counts[n], removed.scores) for n, one in enumerate(removed.orders)])
            for name in removed.orders[0]
        },
        references={name: call.references[name] for name in explanations[0].references},
        layer=explanations[0].layers[-1],
        score=kind,
        blank=chosen.name,
        units="words" if call.requests[0].prepared.boxes is None else "patches",
        orders=max(removed.drawn()),
        fewest_orders=min(removed.drawn()),
        runs=len(removed.scores),
        forwards=_forwards(call, middle),
        left_out={**unable, **dear},
        signed=tuple(name for name in removed.orders[0] if name in explanations[0].signed),
        seed=seed,
        provenance=explanations[0].provenance,
    )


def _fall(number: int, orders: Sequence[Order], counts: Sequence[int], scores: Scores) -> float:
    """How far the score falls, the mean over shares and orders."""
    left = [[scores[one] for one in without(number, order, counts)] for order in orders]
    return scores[Variant(number)] - float(np.mean(left))


def _counts(units: Sequence[Any]) -> list[int]:
    """How many units are removed, for each share; a short text has some of them twice, and they count twice."""
    return [share_count(share, len(units)) for share in SHARES]


def _bearable(call: Call, any_method: bool, any_reference: bool) -> tuple[Call, dict[str, str]]:
    """With all that costs a bearable number of runs, where the caller named none; and the others with why."""
    middle, every = _middle_length(call), REFERENCES.names() if any_reference else ()
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


def _able(call: Call, any_method: bool, any_reference: bool) -> tuple[Call, dict[str, str]]:
    """The call without what nobody asked for and this model cannot have, tried on the longest text; and why not."""
    longest = max(call.requests, key=lambda one: len(one.prepared.positions))
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


def _foresight(call: Call, removal: Removal) -> str:
    """What it will cost, from a few runs on the text of middle length."""
    request = sorted(call.requests, key=lambda one: len(one.prepared.positions))[len(call.requests) // 2]
    few = replace(call, requests=[request], references={})
    (case,) = cases_of(few, few.in_order())
    tried = [Variant(0, (place,)) for place in case.content[:8]]
    measured(few, [case], tried[:1], removal, label="", progress=False)  # what is done once is not counted
    start = time.perf_counter()
    measured(few, [case], tried, removal, label="", progress=False)
    each = (time.perf_counter() - start) / len(tried)
    explainers, texts = len(call.settings.methods or ()) + len(call.references), len(call.requests)
    orders = explainers + (removal.random or 2 * FIRST)  # some texts need more, most need fewer
    removals = texts * (1 + len(set(_counts(case.units))) * orders)
    runs = removals + texts * sum(_forwards(call, len(request.prepared.positions)).values())
    return (
        f"recommend: {explainers} explainers on {texts} text{'s' * (texts > 1)}, some {runs:,.0f} runs of the model, "
        f"about {duration(runs * each)}"
    )


def _forwards(call: Call, positions: int) -> dict[str, float]:
    """Explainer → plain forwards, where its row says so."""
    found = {row.name: row.forwards(positions) for row in call.settings.methods or ()}
    for name, options in call.references.items():
        cost = REFERENCES[name].forwards
        found[name] = None if cost is None else float(cost(positions, **options))
    return {name: cost for name, cost in found.items() if cost is not None}


def _middle_length(call: Call) -> int:
    return int(np.median([len(one.prepared.positions) for one in call.requests]))
