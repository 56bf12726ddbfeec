"""The result of a recommendation: which explainers hold on these texts, the best first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from attnx.agreement.sign_flips import LEVEL, corrected
from attnx.agreement.summary import Summary
from attnx.errors import ChoiceError
from attnx.forks import cached_property
from attnx.registry import unknown
from attnx.results.faithfulness import FEWEST_TEXTS, RANDOM, Verdict
from attnx.results.fit import PROVENANCE, Between, Filled, Named, Rules, Shape
from attnx.results.gathered import Gathered
from attnx.results.result import Array, TableResult
from attnx.results.schema import LATER

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class Recommendation(TableResult):
    """Explainers by what removing their first words costs the answer, held against chance and against the best.

    `r.holds` are those that are better than chance, the best first; `explain(…, methods=r)` takes them.

    >>> model, tokenizer = attnx.load_demo()
    >>> texts = ["the keys to the cabinet", "the boy near the girls", "the girls", "a letter", "the dogs", "the key"]
    >>> r = recommend(model, tokenizer, texts, methods="rollout", references="value_path", random=2, progress=False)
    >>> Recommendation.from_json(r.to_json()) == r
    True
    """

    kind: ClassVar[str] = "recommendation"
    rules: ClassVar[Rules] = {
        "values": Filled(2, named=[RANDOM]),
        "values.*": Shape("measured"),
        "references.*": Named(),
        "layer": Between(1),
        "orders": Between(1),
        "fewest_orders": Between(1),
        "runs": Between(0),
        "forwards.*": Between(0),
        "seed": Between(0),
        "notes.*": Between(1),
        **PROVENANCE,
    }

    values: Mapping[str, Array]
    """Explainer (and `random`) → for each text how far the target's score falls without what is put first."""
    references: Mapping[str, Mapping[str, Any]]
    """Those of the explainers that are measured on the model, with their options; the others are methods."""
    layer: int
    score: str
    blank: str
    """What stood for what was removed."""
    units: str = "words"
    orders: int = 10
    """Random orders of the text that got the most."""
    runs: int = 0
    """Runs of the model with something removed; the same one is never made twice."""
    forwards: Mapping[str, float] = field(default_factory=dict)
    """Explainer → plain forwards that it takes for a text of middle length, where its row says so."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """What nobody asked for and this model cannot have, or that costs too much → why."""
    signed: tuple[str, ...] = ()
    seed: int = 0
    provenance: Mapping[str, Any] = field(default_factory=dict)
    fewest_orders: int | None = field(default=None, metadata=LATER)
    """Random orders of the text that got the fewest; None where all got as many."""
    notes: Mapping[str, int] = field(default_factory=dict, metadata=LATER)
    """What should be known of how texts were read and explained, such as that they were cut, and of how many."""

    @property
    def texts(self) -> int:
        return len(self.values[RANDOM])

    @cached_property
    def explainers(self) -> tuple[str, ...]:
        """The one whose first words cost the most in front."""
        names = [name for name in self.values if name != RANDOM]
        return tuple(sorted(names, key=lambda name: -float(self.values[name].mean())))

    @property
    def best(self) -> str | None:
        """The first that holds; None where nothing does."""
        return next(iter(self.holds), None)

    @property
    def holds(self) -> tuple[str, ...]:
        """Better than chance, corrected for how many were compared; the best first."""
        return tuple(name for name in self.explainers if self.verdict(name) == "better than chance")

    @property
    def as_good(self) -> tuple[str, ...]:
        """Those that hold and cannot be told apart from the best, which is not among them."""
        return tuple(name for name in self.holds if name != self.best and not self.apart_from_best(name))

    def __iter__(self) -> Iterator[str]:
        """Over the names that hold."""
        return iter(self.holds)

    def cell(self, explainer: str) -> Summary:
        """Mean and 95 % interval over the texts."""
        return Summary.of(self._column(explainer), seed=self.seed)

    def beyond_chance(self, explainer: str) -> Summary:
        """By how much it differs from random orders of the same texts: paired, with the 95 % interval of it alone."""
        return Summary.of(self._column(explainer) - self._column(RANDOM), seed=self.seed)

    def behind_best(self, explainer: str) -> Summary:
        """By how much it stays behind the explainer that costs the most: paired, with the interval of it alone."""
        return Summary.of(self._column(self.explainers[0]) - self._column(explainer), seed=self.seed)

    def verdict(self, explainer: str) -> Verdict:
        """Against chance, corrected for how many explainers were compared; fewer than six texts cannot tell."""
        difference = self._column(explainer) - self._column(RANDOM)
        if self.texts < FEWEST_TEXTS or self._chance[explainer] > LEVEL:
            return "not told apart from chance"
        return "better than chance" if difference.mean() > 0 else "worse than chance"

    def apart_from_best(self, explainer: str) -> bool:
        """Whether it is told apart from the explainer that costs the most, corrected for all pairs.

        The best was chosen by the same texts: any pair could have been this one, so all of them are counted.
        """
        self._column(explainer)
        best = self.explainers[0]
        return explainer != best and self.texts >= FEWEST_TEXTS and self._pairs[frozenset((best, explainer))] <= LEVEL

    def sentence(self) -> str:
        """The answer in a line."""
        if self.texts < FEWEST_TEXTS:
            return f"{self.texts} text{'s' * (self.texts > 1)} cannot tell what holds; give {FEWEST_TEXTS} or more."
        if self.best is None:
            return f"None of {_named(self.explainers)} can be told from chance here."
        cost, chance = (f"{self.values[name].mean():.2f}".removeprefix("0") for name in (self.best, RANDOM))
        parts = [f"{self.best}: removing its first {self.units} costs the answer {cost}, chance {chance}"]
        if self.as_good:
            parts.append(f"{_named(self.as_good)} cannot be told from it")
        unsure = [name for name in self.explainers if self.verdict(name) == "not told apart from chance"]
        worse = [name for name in self.explainers if self.verdict(name) == "worse than chance"]
        parts += [f"{_named(unsure)} cannot be told from chance here"] if unsure else []
        parts += [f"{_named(worse)} {'are' if len(worse) > 1 else 'is'} worse than chance here"] if worse else []
        return "; ".join(parts) + "."

    def on_record(self) -> dict[str, Any]:
        """What an explanation that follows it keeps in its provenance."""
        return {
            "sentence": self.sentence(),
            "holds": list(self.holds),
            "texts": self.texts,
            "layer": self.layer,
            "settings": self.provenance.get("settings", {}),
            "score": self.score,
            "blank": self.blank,
            "seed": self.seed,
        }

    def plot(self, ax: Axes | None = None) -> Any:
        """A line for each explainer: what its first words cost with its 95 % interval, chance dashed."""
        return self._view.plot(self, ax)

    def __repr__(self) -> str:
        return f"Recommendation({self.texts} texts, holds: {', '.join(self.holds) or 'nothing'})"

    def _column(self, explainer: str) -> Array:
        if explainer not in self.values:
            raise ChoiceError(unknown("explainer", explainer, self.values))
        return self.values[explainer]

    @cached_property
    def _chance(self) -> dict[str, float]:
        """Explainer → p of its difference to chance."""
        differences = np.stack([self.values[name] - self.values[RANDOM] for name in self.explainers], axis=1)
        return dict(zip(self.explainers, corrected(differences, seed=self.seed).tolist(), strict=True))

    @cached_property
    def _pairs(self) -> dict[frozenset[str], float]:
        """Two explainers → p of their difference."""
        pairs = list(combinations(self.explainers, 2))
        if not pairs:
            return {}
        differences = np.stack([self.values[one] - self.values[other] for one, other in pairs], axis=1)
        return dict(zip(map(frozenset, pairs), corrected(differences, seed=self.seed).tolist(), strict=True))


def gathered(found: Gathered, **told: Any) -> Recommendation:
    """Of the cells of many texts; `told` are the fields that are the same for all of them."""
    return Recommendation(
        values={name: found.array(name) for name in found.first["explainers"]},
        layer=found.first["layer"],
        units=found.first["units"],
        orders=max(found.columns["random orders"]),
        fewest_orders=min(found.columns["random orders"]),
        runs=sum(found.columns["model runs"]),
        signed=tuple(found.first["signed"]),
        provenance=found.provenance,
        notes=found.notes,
        **told,
    )


def _named(names: Any) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else str(last)
