"""The result of a faithfulness measurement: four numbers for each explainer, beside chance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

from attnx.agreement.summary import Summary
from attnx.errors import ChoiceError
from attnx.registry import unknown
from attnx.results.fit import PROVENANCE, Between, Filled, NamedAs, Rules, Shape
from attnx.results.gathered import Cells, Gathered
from attnx.results.result import Array, TableResult
from attnx.results.schema import LATER

RANDOM = "random"
METRICS = ("comprehensiveness", "sufficiency", "deletion", "insertion")
MORE_IS_BETTER = {"comprehensiveness": True, "sufficiency": False, "deletion": False, "insertion": True}
Verdict: TypeAlias = Literal["better than chance", "worse than chance", "not told apart from chance"]
MARKS: Mapping[Verdict, str] = {
    "better than chance": "+",
    "worse than chance": "−",
    "not told apart from chance": "",
}
FEWEST_TEXTS = 6
"""Of five texts all fall on one side by chance in 1 of 16 cases: too often for an interval of 95 %."""


def verdict_of(difference: Summary, more_is_better: bool = True) -> Verdict:
    """What a paired difference to chance says: nothing where its interval has 0 in it, or where it is of too few."""
    if difference.count < FEWEST_TEXTS or difference.low is None or difference.high is None:
        return "not told apart from chance"
    if difference.low <= 0 <= difference.high:
        return "not told apart from chance"
    return "better than chance" if (difference.low > 0) == more_is_better else "worse than chance"


def orders_told(fewest: int | None, most: int) -> str:
    """How many random orders texts got."""
    span = str(most) if fewest in (None, most) else f"{fewest} to {most}"
    return f"{span} random order{'s' * (most > 1)}"


@dataclass(frozen=True, eq=False)
class Faithfulness(TableResult):
    """How faithful explainers are. `f.verdict("rollout", "comprehensiveness")` says whether it beats chance.

    >>> model, tokenizer = attnx.load_demo()
    >>> few = {"methods": "rollout", "references": "value_path", "progress": False}
    >>> f = faithfulness(model, tokenizer, ["the keys to the cabinet"], **few)
    >>> Faithfulness.from_json(f.to_json()) == f
    True
    """

    kind: ClassVar[str] = "faithfulness table"
    rules: ClassVar[Rules] = {
        "layer": Between(1),
        "values": Filled(named=[RANDOM]),
        "values.*": Shape("measured 4", undefined=True),
        "deletion": NamedAs("values"),
        "deletion.*": Shape("steps", undefined=True),
        "insertion": NamedAs("values"),
        "insertion.*": Shape("steps", undefined=True),
        "orders": Between(1),
        "fewest_orders": Between(1),
        "seed": Between(0),
        "notes.*": Between(1),
        **PROVENANCE,
    }

    layer: int
    score: str
    values: Mapping[str, Array]
    """Explainer (and `random`) → text × metric, in the order of `METRICS`."""
    deletion: Mapping[str, Array]
    """Explainer → the mean score with 0 %, 10 %, … 100 % of the positions blanked, the most relevant first."""
    insertion: Mapping[str, Array]
    """Explainer → the mean score with only 0 %, 10 %, … 100 % of the positions left."""
    orders: int
    """Random orders of the text that got the most."""
    seed: int = 0
    signed: tuple[str, ...] = ()
    """Explainers whose scores are for and against the answer: what speaks against it is removed last."""
    blank: str = ""
    """What stood for nothing where positions were removed; "" where the file does not say."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    notes: Mapping[str, int] = field(default_factory=dict, metadata=LATER)
    """What should be known of how texts were read and explained, such as that they were cut, and of how many."""
    fewest_orders: int | None = field(default=None, metadata=LATER)
    """Random orders of the text that got the fewest; None where all got as many."""

    @property
    def explainers(self) -> tuple[str, ...]:
        return tuple(name for name in self.values if name != RANDOM)

    def cell(self, explainer: str, metric: str) -> Summary:
        """Mean and 95 % interval over the texts."""
        return Summary.of(self._column(explainer, metric), seed=self.seed)

    def beyond_chance(self, explainer: str, metric: str) -> Summary:
        """By how much an explainer differs from random orders of the same texts: paired, with its 95 % interval."""
        return Summary.of(self._column(explainer, metric) - self._column(RANDOM, metric), seed=self.seed)

    def verdict(self, explainer: str, metric: str) -> Verdict:
        """Whether the interval of the difference to chance leaves zero out; fewer than six texts cannot tell."""
        return verdict_of(self.beyond_chance(explainer, metric), MORE_IS_BETTER[metric])

    def plot(self, axes: Any = None) -> Any:
        """The deletion and the insertion curve of every explainer, chance dashed. Takes and returns two axes."""
        return self._view.plot(self, axes)

    def __repr__(self) -> str:
        texts = len(self.values[RANDOM])
        return f"Faithfulness({texts} texts, {', '.join(self.explainers)} at layer {self.layer})"

    def _column(self, explainer: str, metric: str) -> Array:
        if explainer not in self.values:
            raise ChoiceError(unknown("explainer", explainer, self.values))
        if metric not in METRICS:
            raise ChoiceError(unknown("metric", metric, METRICS))
        column: Array = self.values[explainer][:, METRICS.index(metric)]
        return column

    def heading(self) -> str:
        """What was measured, in a line."""
        texts = len(self.values[RANDOM])
        blanked = f", blanked with {self.blank}" if self.blank else ""
        return (
            f"Faithfulness at layer {self.layer}: {self.score} of the target, {texts} text{'s' * (texts > 1)}{blanked}"
        )

    def foot(self) -> str:
        """How to read the marks, and in which order positions went."""
        return self._marks_foot() + (f" By sign: {', '.join(self.signed)}." if self.signed else "")

    def _marks_foot(self) -> str:
        if len(self.values[RANDOM]) < FEWEST_TEXTS:
            return f"Fewer than {FEWEST_TEXTS} texts cannot be told apart from chance; give more."
        return (
            f"+ better, − worse than {orders_told(self.fewest_orders, self.orders)} of each text: the 95 % interval of "
            "the paired difference leaves 0 out."
        )


def gathered(
    rows: Iterable[Cells], left_out: Mapping[str, int] | None = None, *, score: str, blank: str, seed: int
) -> Faithfulness:
    """Of the cells of many texts, in their order."""
    found = Gathered.of(rows, left_out)
    names = (*found.first["explainers"], RANDOM)
    return Faithfulness(
        layer=found.first["layer"],
        score=score,
        values={name: found.array(name) for name in names},
        deletion={name: found.array(f"deletion {name}").mean(0) for name in names},
        insertion={name: found.array(f"insertion {name}").mean(0) for name in names},
        orders=max(found.columns["random orders"]),
        fewest_orders=min(found.columns["random orders"]),
        seed=seed,
        signed=tuple(found.first["signed"]),
        blank=blank,
        provenance=found.provenance,
        notes=found.notes,
    )
