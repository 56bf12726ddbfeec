"""Faithfulness: does the prediction depend on the positions that a method ranks first, more than on any others?

- comprehensiveness: how far the target's score falls when the most relevant positions are blanked (higher is better);
- sufficiency: how far it falls when only they are left (lower is better; DeYoung et al. 2020);
- deletion and insertion: the area under the score while positions are removed, or restored, the most relevant first.

Each is compared with random orders of the same positions of the same texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, ClassVar

import numpy as np

from attnx.arguments import checked
from attnx.attribution import NOTE, AskedReferences, Named, Perturbation, asked_references, cached_outputs
from attnx.errors import InputError
from attnx.evaluation.removal import (
    RANDOM,
    SHARES,
    Order,
    Removal,
    Scores,
    orders_text,
    removal_baseline,
    remove,
    removed_counts,
    share_count,
    without,
)
from attnx.evaluation.table import EvaluationTable, plural
from attnx.evaluation.task import CollectedRows, EvaluationTask, facts
from attnx.hooks import unwrap_model
from attnx.methods import PAPER_METHODS
from attnx.pipeline import LAST, Request, given_model, takes_pipelines
from attnx.results import Array, Between, Explanation, Filled, NamedAs, Rules, Shape, record_of
from attnx.runs import FACTS, Cells, OutputOptions, RowCallback
from attnx.targets import Score, check_score

METRICS = ("comprehensiveness", "sufficiency", "deletion", "insertion")
LOWER_IS_BETTER = ("sufficiency", "deletion")


@dataclass(frozen=True, eq=False, kw_only=True)
class Faithfulness(EvaluationTable):
    """How faithful methods are. `f.significance("rollout", "comprehensiveness")` says whether it is above chance.

    Example:
        >>> model, tokenizer = attnx.load_demo()
        >>> few = {"methods": "rollout", "references": "lrp", "progress": False}
        >>> f = faithfulness(model, tokenizer, ["the keys to the cabinet"], **few)
        >>> Faithfulness.from_json(f.to_json()) == f
        True
    """

    kind: ClassVar[str] = "faithfulness table"
    correction: ClassVar[bool] = False
    intervals: ClassVar[bool] = False
    rules: ClassVar[Rules] = {
        **EvaluationTable.rules,
        "layer": Between(1),
        "values": Filled(named=[RANDOM]),
        "deletion": NamedAs("values"),
        "deletion.*": Shape("steps", undefined=True),
        "insertion": NamedAs("values"),
        "insertion.*": Shape("steps", undefined=True),
        "orders": Between(1),
        "fewest_orders": Between(1),
    }

    columns: tuple[str, ...] = METRICS
    baseline: str | None = RANDOM
    lower_is_better: tuple[str, ...] = LOWER_IS_BETTER
    layer: int
    score: str
    deletion: Mapping[str, Array]
    """Method → the mean score with 0 %, 10 %, … 100 % of the positions blanked, the most relevant first."""
    insertion: Mapping[str, Array]
    """Method → the mean score with only 0 %, 10 %, … 100 % of the positions left."""
    orders: int
    """Random orders of the text that got the most."""
    signed: tuple[str, ...] = ()
    """Methods whose scores support or oppose the target: what opposes it is removed last."""
    replacement: str = ""
    """What replaced removed positions; "" where the file does not say."""
    fewest_orders: int | None = field(default=None)
    """Random orders of the text that got the fewest; None where all got as many."""

    def heading(self) -> str:
        blanked = f", blanked with {self.replacement}" if self.replacement else ""
        return f"Faithfulness at layer {self.layer}: {self.score} of the target, {plural(self.count, 'text')}{blanked}"

    def label(self, column: str) -> str:
        return f"{column} {'↓' if column in self.lower_is_better else '↑'}"

    def foot(self) -> tuple[str, ...]:
        marks = self.marks_line(orders_text(self.fewest_orders, self.orders))
        return (marks + (f" By sign: {', '.join(self.signed)}." if self.signed else ""),)

    def draw(self, axes: Any = None) -> Any:
        """The deletion and the insertion curve of every method, chance dashed. Takes and returns two axes."""
        from attnx.evaluation.view import plot_curves

        return plot_curves(self, axes)

    def __repr__(self) -> str:
        return f"Faithfulness({plural(self.count, 'text')}, {', '.join(self.methods)} at layer {self.layer})"


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
    """Measure methods (at `layer`, by default the last) and references alike, compared with random orders of each text.

    Args:
        score: The target's "probability", "logit" or "log_odds".
        baseline: What replaces removed positions (see `blankout`).
        shares: Of the positions, over which comprehensiveness and sufficiency are means.
        steps: The resolution of the curves.
        random: Random orders of each text; by default as many as the text needs for chance to be known well, 4 to 20.
            They depend on the text and the `seed` alone.
        exact: If false, no blanked text is run: scores are first-order estimates by slopes, and the result says so.
        run_dir: A folder in which the work is saved and resumed, as in `compare`.
        options: Those of `explain`.

    Example:
        >>> model, tokenizer = attnx.load_demo()
        >>> few = {"methods": "rollout", "references": "lrp", "progress": False}
        >>> f = faithfulness(model, tokenizer, ["the keys to the cabinet"], **few)
        >>> f.methods
        ('rollout', 'lrp')
    """
    given = given_model(model, tokenizer)
    kind = check_score(score, unwrap_model(given.model), "probability")
    if steps < 1 or (random is not None and random < 1) or not all(0 < share <= 1 for share in shares) or not shares:
        raise InputError("steps and random must be at least 1, and shares lie between 0 and 1")
    if seed < 0:
        raise InputError(f"a seed is a whole number from 0, found {seed}")
    output_options, options = OutputOptions.taken(run_dir, options)
    options = {
        "methods": methods,
        "references": asked_references(references),
        "layer": LAST if layer is None else layer,
        "target": target,
        **options,
    }
    task = FaithfulnessTask(options, kind, baseline, tuple(shares), steps, random, seed, exact)
    result: Faithfulness = output_options.result(task, given, texts, progress=progress)
    return result


@dataclass(frozen=True)
class FaithfulnessTask(EvaluationTask):
    """Four metrics and two curves for each method on a text, and for chance."""

    name: ClassVar[str] = "faithfulness"
    score: Score = "probability"
    baseline: Named = None
    shares: tuple[float, ...] = SHARES
    steps: int = 10
    random: int | None = None
    seed: int = 0
    exact: bool = True

    def decided(self, model: Any, processor: Any, things: Sequence[Request]) -> dict[str, Any]:
        return {"baseline": removal_baseline(model, processor, things, self.baseline).name}

    @cached_outputs()
    def cells(
        self, model: Any, processor: Any, things: Sequence[Request], tick: RowCallback, progress: bool
    ) -> Sequence[Cells]:
        call = self.call(model, processor, things)
        explanations = call.in_order("explaining", progress)
        points = [removed_counts(len(item.prepared.units), self.steps, self.shares) for item in things]
        removal = Removal(
            self.score,
            removal_baseline(model, processor, things, self.baseline),
            self.seed,
            self.random,
            runs=lambda number, order: _variants(number, order, points[number]),
            metrics=lambda number, order, scores: _curves(number, order, points[number], scores).metrics(self.shares),
            exact=self.exact,
        )
        orders, scores = remove(call, explanations, removal, label="faithfulness", progress=progress)
        return [
            self._row(explanation, number, orders[number], points[number], scores)
            for number, explanation in enumerate(explanations)
        ]

    def result(self, cells: Iterable[Cells], left_out: Mapping[str, int]) -> Faithfulness:
        collected = CollectedRows.of(cells, left_out)
        names = (*collected.first["methods"], RANDOM)
        return Faithfulness(
            values={name: collected.array(name) for name in names},
            layer=collected.first["layer"],
            score=self.score,
            deletion={name: collected.array(f"deletion {name}").mean(0) for name in names},
            insertion={name: collected.array(f"insertion {name}").mean(0) for name in names},
            orders=max(collected.columns["random orders"]),
            fewest_orders=min(collected.columns["random orders"]),
            seed=self.seed,
            signed=tuple(collected.first["signed"]),
            replacement="" if self.baseline is None else str(self.baseline),
            provenance=collected.provenance,
            notes=collected.notes,
        )

    def _row(
        self, explanation: Explanation, number: int, orders: Mapping[str, Sequence[Order]], counts: Any, scores: Scores
    ) -> Cells:
        curves = {name: [_curves(number, order, counts, scores) for order in drawn] for name, drawn in orders.items()}
        methods = tuple(name for name in orders if name != RANDOM)
        estimated = () if self.exact else (NOTE.format("each score"),)
        return {
            **{
                name: np.mean([curve.metrics(self.shares) for curve in drawn], axis=0) for name, drawn in curves.items()
            },
            **{f"deletion {name}": _on_grid(drawn, "without") for name, drawn in curves.items()},
            **{f"insertion {name}": _on_grid(drawn, "only") for name, drawn in curves.items()},
            "random orders": len(orders[RANDOM]),
            FACTS: facts(
                provenance=record_of(explanation),
                notes=(*estimated, *explanation.notes),
                layer=(explanation.layers or (1,))[-1],
                methods=methods,
                signed=tuple(name for name in explanation.methods if explanation.attributions[name].signed),
            ),
        }


@dataclass(frozen=True, eq=False)
class _Curves:
    """The target's score with the first `counts` units of an order blanked, and with only these left."""

    counts: tuple[int, ...]
    without: Array
    only: Array

    @property
    def shares(self) -> Array:
        return np.array(self.counts) / self.counts[-1]

    def metrics(self, shares: Sequence[float]) -> Array:
        """Comprehensiveness, sufficiency, deletion and insertion."""
        whole = self.without[0]
        points = [self.counts.index(share_count(share, self.counts[-1])) for share in shares]
        return np.array(
            [
                float(np.mean(whole - self.without[points])),
                float(np.mean(whole - self.only[points])),
                _area(self.without, self.shares),
                _area(self.only, self.shares),
            ]
        )


def _variants(number: int, order: Order, counts: Sequence[int]) -> Iterator[Perturbation]:
    """What must be run for the curves of an order: for each count the text without its first, and with only these."""
    for count in counts:
        yield without(number, order[:count])
        yield without(number, order[count:])


def _curves(number: int, order: Order, counts: Sequence[int], scores: Scores) -> _Curves:
    first = [scores[without(number, order[:count])] for count in counts]
    rest = [scores[without(number, order[count:])] for count in counts]
    return _Curves(tuple(counts), np.array(first), np.array(rest))


def _area(scores: Array, shares: Array) -> float:
    return float(((scores[1:] + scores[:-1]) / 2 * np.diff(shares)).sum())


def _on_grid(curves: Sequence[_Curves], kind: str) -> Array:
    """The mean over the orders of a text, at eleven shares from 0 to 1."""
    grid = np.linspace(0, 1, 11)
    return np.mean([np.interp(grid, curve.shares, getattr(curve, kind)) for curve in curves], axis=0)  # type: ignore[no-any-return]
