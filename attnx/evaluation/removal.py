"""Positions removed in the order of their scores, and in random orders, with the model's score of what is left."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import nn

from attnx.adapters import PreparedInput, adapter_for
from attnx.attribution import Baseline, Case, Named, Perturbation, choose_baseline, estimate, measure
from attnx.errors import InputError
from attnx.hooks import unwrap_model
from attnx.methods import scores_for_ranking
from attnx.pipeline import Call, Request
from attnx.results import Array, Explanation, layered, unlayered
from attnx.targets import Score, Target

Unit: TypeAlias = tuple[int, ...]
Order: TypeAlias = tuple[Unit, ...]
"""Units, the most relevant first; each is the positions that are removed together: one, or those of a span."""
Scores: TypeAlias = Mapping[Perturbation, float]

RANDOM = "random"
"""The row of a table that stands for chance: the mean over random orders of the same texts."""
SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)
"""Of the positions, as DeYoung et al. take them: comprehensiveness and sufficiency are means over these."""
FIRST = 4
"""Random orders that every text gets: the spread needs two pairs at least."""
MOST = 20
NARROW = 0.1
"""The standard error of a text's chance, divided by the range of its scores, that is narrow enough: over a dozen texts
the error of the mean is a third of that, small in comparison with how texts differ."""


def generator_of(prepared: PreparedInput, seed: int, name: str) -> np.random.Generator:
    """Draws that depend on the seed, the input and their purpose, not on the texts around it."""
    digest = hashlib.blake2b(name.encode(), digest_size=16)
    for key, tensor in sorted(prepared.inputs.items()):
        digest.update(key.encode())
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return np.random.default_rng([seed, int.from_bytes(digest.digest(), "big")])


def random_orders(units: Sequence[Unit], random: np.random.Generator) -> Iterator[Order]:
    """Orders without end, each second one the reverse of the one before."""
    while True:
        order = tuple(units[index] for index in random.permutation(len(units)))
        yield order
        yield order[::-1]


def narrow_enough(values: Sequence[Array], span: float) -> bool:
    """Whether the mean over orders (each a row of metrics) is known well, compared with the `span` of the scores."""
    if span == 0:
        return True
    whole = len(values) // 2 * 2
    pairs = np.array(values[:whole]).reshape(whole // 2, 2, -1).mean(1)
    error = pairs.std(0, ddof=1) / np.sqrt(len(pairs))
    return bool((error <= NARROW * span).all())


def order_of(explanation: Explanation, method: str, layer: int | None, random: np.random.Generator) -> Order:
    """Units by falling score. Those that tie are put in random order: their own order means nothing.

    Of a signed method what opposes the target comes last: it did not make it.
    """
    units, row = explanation.units, explanation.scores(method, layer)
    scores = scores_for_ranking([row[list(unit)].sum() for unit in units], explanation.attributions[method].precision)
    return tuple(units[index] for index in np.lexsort((random.random(len(units)), -scores)))


def removed_counts(units: int, steps: int, shares: Sequence[float]) -> tuple[int, ...]:
    """How many units are removed at each point of a curve: a grid of `steps`, and those that `shares` ask for."""
    grid = {round(step * units / steps) for step in range(steps + 1)}
    return tuple(sorted(grid | {share_count(share, units) for share in shares}))


def share_count(share: float, units: int) -> int:
    """A share of a text in whole units: rounded up, so that it is never none."""
    return min(units, max(1, int(np.ceil(share * units - 1e-9))))


def cases_of(call: Call, explanations: Sequence[Explanation]) -> list[Case]:
    """The inputs of a call with the targets that were explained."""
    return [
        Case(request.prepared, Target.of(call.model, explanation.prediction, explanation.position))
        for request, explanation in zip(call.requests, explanations, strict=True)
    ]


def without(number: int, units: Order) -> Perturbation:
    """A text without these units."""
    return Perturbation(number, tuple(sorted(position for unit in units for position in unit)))


@dataclass(frozen=True, eq=False)
class Removal:
    """What is removed, what replaces it, and what is read off the model then."""

    kind: Score
    baseline: Baseline
    seed: int
    random: int | None
    """Random orders for each text; None for as many as it takes."""
    runs: Callable[[int, Order], Iterable[Perturbation]]
    """(number of the text, order) → what must be run."""
    metrics: Callable[[int, Order, Scores], Array]
    """The metrics of an order, by these scores."""
    exact: bool = True
    """Whether variants are run, and not estimated to first order."""


def remove(
    call: Call, explanations: Sequence[Explanation], removal: Removal, *, label: str, progress: bool
) -> tuple[list[dict[str, list[Order]]], Scores]:
    """Run the variants of all orders together, then of further random orders where chance is not narrow enough.

    Returns:
        For each text: method → its order, and `RANDOM` → several; and the score of every variant that was run.
    """
    cases = cases_of(call, explanations)
    texts = [
        _TextOrders.of(number, *pair, removal) for number, pair in enumerate(zip(explanations, cases, strict=True))
    ]
    scores: dict[Perturbation, float] = {}
    waiting, orders = texts, [(text.number, order) for text in texts for order in text.all_orders()]
    while orders:
        runs = dict.fromkeys(run for number, order in orders for run in removal.runs(number, order))
        new = [run for run in runs if run not in scores]
        array = measured(call, cases, new, removal, label=label, progress=progress)
        scores |= zip(new, array.tolist(), strict=True)
        waiting = [text for text in waiting if not text.settled(removal, scores)]
        orders = [(text.number, order) for text in waiting for order in text.next_pair()]
        label = f"{label.removesuffix(MORE)}{MORE}"
    return [text.orders for text in texts], scores


MORE = ", more random orders"


def removal_baseline(model: nn.Module, processor: Any, requests: Sequence[Request], named: Named) -> Baseline:
    """What replaces removed positions in all of these: what was named, or by the rule for the first of them."""
    model = unwrap_model(model)
    return choose_baseline(model, adapter_for(model), processor, requests[0].prepared, named)


def measured(
    call: Call, cases: Sequence[Case], runs: Sequence[Perturbation], removal: Removal, *, label: str, progress: bool
) -> Array:
    options: dict[str, Any] = {"kind": removal.kind, "baseline": removal.baseline, "label": label, "progress": progress}
    return (measure if removal.exact else estimate)(call.model, call.tokenizer, cases, runs, **options)


@dataclass(frozen=True, eq=False)
class _TextOrders:
    """A text with the orders in which its units are removed so far."""

    number: int
    orders: dict[str, list[Order]]
    chance: Iterator[Order]

    @classmethod
    def of(cls, number: int, explanation: Explanation, case: Case, removal: Removal) -> _TextOrders:
        """The order of every method, at the last layer there is, and of every reference; and some for chance."""
        if not case.content:
            raise InputError("a text without content positions has nothing to remove; leave it out")

        def draws(name: str) -> np.random.Generator:
            return generator_of(case.prepared, removal.seed, name)

        layer, names = (explanation.layers or (1,))[-1], (*layered(explanation), *unlayered(explanation))
        chance = random_orders(case.units, draws(RANDOM))
        orders = {name: [order_of(explanation, name, layer, draws(name))] for name in names}
        return cls(number, {**orders, RANDOM: list(islice(chance, removal.random or FIRST))}, chance)

    def all_orders(self) -> Iterator[Order]:
        for orders in self.orders.values():
            yield from orders

    def settled(self, removal: Removal, scores: Scores) -> bool:
        """Whether no further random orders are needed."""
        random = self.orders[RANDOM]
        if removal.random is not None or len(random) >= MOST:
            return True
        values = [scores[run] for order in self.all_orders() for run in removal.runs(self.number, order)]
        metrics = [removal.metrics(self.number, order, scores) for order in random]
        return narrow_enough(metrics, max(values) - min(values))

    def next_pair(self) -> list[Order]:
        pair = list(islice(self.chance, 2))
        self.orders[RANDOM].extend(pair)
        return pair


def orders_text(fewest: int | None, most: int) -> str:
    """How many random orders texts got."""
    span = str(most) if fewest in (None, most) else f"{fewest} to {most}"
    return f"{span} random order{'s' * (most > 1)} of each text"
