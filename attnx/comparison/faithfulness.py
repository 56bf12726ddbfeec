"""Faithfulness: does the answer hang on the positions that an explanation puts first, more than on any others?

- comprehensiveness: how far the target's score falls when the most relevant positions are blanked (higher is better);
- sufficiency: how far it falls when only they are left (lower is better; DeYoung et al. 2020);
- deletion and insertion: the area under the score while positions go, or come back, the most relevant first.

Each is held against random orders of the same positions of the same texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import nn

from attnx.answer.number import Score
from attnx.answer.score import check_score
from attnx.arguments import checked
from attnx.capturing.watch import unwrapped
from attnx.comparison.chance import Array
from attnx.comparison.removal import Curves, curves, removed_counts, share_count, variants
from attnx.comparison.removing import Removal, Removed, remove
from attnx.errors import InputError
from attnx.explaining.call import Call
from attnx.inputs.families import adapter_for
from attnx.methods.registry import PAPER_METHODS
from attnx.references.blank import Named, choose_blank
from attnx.references.registry import Asked, asked_references
from attnx.results.faithfulness import RANDOM, Faithfulness
from attnx.results.noted import counted
from attnx.running.plan import LAST

SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)
"""Of the positions, as DeYoung et al. take them: comprehensiveness and sufficiency are means over these."""


@checked
def faithfulness(
    model: nn.Module,
    tokenizer: Any,
    texts: Any,
    *,
    methods: Sequence[str] | str = PAPER_METHODS,
    references: Asked = ("gradient", "blankout"),
    layer: int | None = None,
    score: Score | None = None,
    blank: Named = None,
    shares: Sequence[float] = SHARES,
    steps: int = 10,
    random: int | None = None,
    seed: int = 0,
    target: Any = None,
    progress: bool = True,
    **options: Any,
) -> Faithfulness:
    """Measure methods (at `layer`, by default the last) and references alike, beside `random` orders for each text.

    By default as many of these are drawn as each text needs for chance to be known well, 4 to 20. They hang on the
    text and the `seed` alone.
    `score` is the target's probability, logit or log-odds; `blank` is what stands for nothing (see `blankout`);
    `steps` is the resolution of the curves. Further `options` are those of `explain`.

    >>> model, tokenizer = attnx.load_demo()
    >>> few = {"methods": "rollout", "references": "value_path", "progress": False}
    >>> f = faithfulness(model, tokenizer, ["the keys to the cabinet"], **few)
    >>> f.explainers
    ('rollout', 'value_path')
    """
    model = unwrapped(model)
    kind = check_score(score, model, "probability")
    if steps < 1 or (random is not None and random < 1) or not all(0 < share <= 1 for share in shares) or not shares:
        raise InputError("steps and random must be at least 1, and shares lie between 0 and 1")
    if seed < 0:
        raise InputError(f"a seed is a whole number from 0, found {seed}")
    call = Call.of(
        model,
        tokenizer,
        texts,
        methods=methods,
        references=asked_references(references),
        layer=LAST if layer is None else layer,
        target=target,
        **options,
    )
    chosen = choose_blank(model, adapter_for(model), tokenizer, call.requests[0].prepared, blank)
    explanations = call.in_order("explaining", progress)
    points = [removed_counts(len(one.prepared.units), steps, shares) for one in call.requests]
    removal = Removal(
        kind,
        chosen,
        seed,
        random,
        runs=lambda number, order: variants(number, order, points[number]),
        metrics=lambda number, order, scores: _metrics(curves(number, order, points[number], scores), shares),
    )
    removed = remove(call, explanations, removal, label="faithfulness", progress=progress)
    drawn = _curves(removed, points)
    metrics = [{name: _mean_metrics(several, shares) for name, several in of_text.items()} for of_text in drawn]
    explainers = tuple(name for name in metrics[0] if name != RANDOM)
    return Faithfulness(
        layer=explanations[0].layers[-1],
        score=kind,
        values={name: np.stack([one[name] for one in metrics]) for name in (*explainers, RANDOM)},
        deletion=_mean_curves(drawn, "without"),
        insertion=_mean_curves(drawn, "only"),
        orders=max(removed.drawn()),
        fewest_orders=min(removed.drawn()),
        seed=seed,
        signed=tuple(name for name in explainers if name in explanations[0].signed),
        blank=chosen.name,
        provenance=explanations[0].provenance,
        notes=counted(explanations),
    )


def _curves(removed: Removed, points: Sequence[Sequence[int]]) -> list[dict[str, list[Curves]]]:
    """For each text and each explainer the curves of its order, and for chance those of its many."""
    return [
        {
            name: [curves(number, order, points[number], removed.scores) for order in several]
            for name, several in of_text.items()
        }
        for number, of_text in enumerate(removed.orders)
    ]


def _mean_metrics(several: Sequence[Curves], shares: Sequence[float]) -> Array:
    """Comprehensiveness, sufficiency, deletion and insertion, each the mean over the orders."""
    return np.mean([_metrics(one, shares) for one in several], axis=0)  # type: ignore[no-any-return]


def _metrics(one: Curves, shares: Sequence[float]) -> Array:
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


def _mean_curves(drawn: Sequence[Mapping[str, Sequence[Curves]]], kind: str) -> dict[str, Array]:
    """Explainer → the mean over texts on one grid of eleven shares, from 0 to 1."""
    grid = np.linspace(0, 1, 11)
    return {
        name: np.mean(
            [
                np.mean([np.interp(grid, one.shares, getattr(one, kind)) for one in of_text[name]], axis=0)
                for of_text in drawn
            ],
            axis=0,
        )
        for name in drawn[0]
    }
