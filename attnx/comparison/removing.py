"""Remove what explainers and random orders put first, and read the score: every different variant is run once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
from torch import nn

from attnx.answer.number import Score
from attnx.capturing.watch import unwrapped
from attnx.comparison.chance import FIRST, MOST, Array, Order, generator_of, narrow_enough, random_orders
from attnx.comparison.removal import cases_of, order_of
from attnx.errors import InputError
from attnx.explaining.call import Call
from attnx.explaining.seam import Request
from attnx.inputs.families import adapter_for
from attnx.references.blank import Blank, Named, choose_blank
from attnx.references.case import Case
from attnx.references.estimate import estimate
from attnx.references.variant import Variant
from attnx.references.variants import measure
from attnx.results.explanation import Explanation
from attnx.results.faithfulness import RANDOM

Scores: TypeAlias = Mapping[Variant, float]


@dataclass(frozen=True, eq=False)
class Removal:
    """What is removed, what stands in its place, and what is read off the model then."""

    kind: Score
    blank: Blank
    seed: int
    random: int | None
    """Random orders for each text; None for as many as it takes."""
    runs: Callable[[int, Order], Iterable[Variant]]
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
        return tuple(len(one[RANDOM]) for one in self.orders)


def remove(call: Call, explanations: Sequence[Explanation], removal: Removal, *, label: str, progress: bool) -> Removed:
    """Run the variants of all orders together, then of further random orders where chance is not narrow enough."""
    cases = cases_of(call, explanations)
    texts = [_Text.of(number, *pair, removal) for number, pair in enumerate(zip(explanations, cases, strict=True))]
    scores: dict[Variant, float] = {}
    waiting, orders = texts, [(text.number, order) for text in texts for order in text.all_orders()]
    while orders:
        runs = dict.fromkeys(run for number, order in orders for run in removal.runs(number, order))
        new = [one for one in runs if one not in scores]
        found = measured(call, cases, new, removal, label=label, progress=progress)
        scores |= zip(new, found.tolist(), strict=True)
        waiting = [text for text in waiting if not text.settled(removal, scores)]
        orders = [(text.number, order) for text in waiting for order in text.further()]
        label = f"{label.removesuffix(MORE)}{MORE}"
    return Removed([text.orders for text in texts], scores)


MORE = ", more random orders"


def blank_of(model: nn.Module, processor: Any, requests: Sequence[Request], named: Named) -> Blank:
    """What stands for nothing in all of these: what was named, or by the rule for the first of them."""
    model = unwrapped(model)
    return choose_blank(model, adapter_for(model), processor, requests[0].prepared, named)


def measured(
    call: Call, cases: Sequence[Case], runs: Sequence[Variant], removal: Removal, *, label: str, progress: bool
) -> Array:
    options: dict[str, Any] = {"kind": removal.kind, "blank": removal.blank, "label": label, "progress": progress}
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
        own = [scores[one] for order in self.all_orders() for one in removal.runs(self.number, order)]
        return narrow_enough([removal.metrics(self.number, one, scores) for one in drawn], max(own) - min(own))

    def further(self) -> list[Order]:
        """One more pair."""
        pair = list(islice(self.chance, 2))
        self.orders[RANDOM].extend(pair)
        return pair
