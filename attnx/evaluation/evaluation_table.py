"""The result of a recommendation: which explainers hold on these texts, the best first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeAlias

import numpy as np

from attnx._signals import cached_property
from attnx.errors import ChoiceError, InputError
from attnx.registry import unknown
from attnx.results import (
    LATER,
    PROVENANCE,
    Array,
    Between,
    Explanation,
    Filled,
    Named,
    NamedAs,
    Rising,
    Rules,
    SameNames,
    Shape,
    TableResult,
    compared_over,
    plain,
    rank_correlation,
)
from attnx.runs import Cells
from attnx.statistics import LEVEL, MEASURES, Summary, sign_flips

if TYPE_CHECKING:
    from matplotlib.axes import Axes


FACTS = "facts"
LEFT_OUT = "left out: "
"""How notes begin that are of inputs which are not in the result."""
_REASONS = 5
"""So many reasons are told apart of those for which inputs were left out."""


def facts(*, provenance: Mapping[str, Any], notes: Sequence[str] = (), **more: Any) -> dict[str, Any]:
    """What is known of an input beside its numbers, as JSON would give it back."""
    result: dict[str, Any] = plain({"provenance": provenance, "notes": notes, **more})
    return result


@dataclass(eq=False)
class Gathered:
    """Of at least one input."""

    columns: dict[str, list[Any]] = field(default_factory=dict)
    first: dict[str, Any] = field(default_factory=dict)
    """The facts of the first input."""
    shared: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Reference → those of its facts that are the same for all inputs."""
    noted: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, rows: Iterable[Cells], left_out: Mapping[str, int] | None = None) -> Gathered:
        """All rows; and why inputs that have none were left out, which the notes say."""
        made, seen = cls(), None
        notes: list[str] = []
        for cells in rows:
            for name, value in cells.items():
                if name != FACTS:
                    made.columns.setdefault(name, []).append(value)
            if cells[FACTS] != seen:  # rows beside each other mostly tell the same
                seen, notes = cells[FACTS], made._notes(cells[FACTS])
            made.noted.update(notes)
        if not made.first:
            raise InputError("there is nothing to sum up: no input could be measured")
        for reason, count in _fewer(left_out or {}).items():
            made.noted[f"{LEFT_OUT}{reason}"] += count
        return made

    @property
    def provenance(self) -> dict[str, Any]:
        """Of the first input."""
        result: dict[str, Any] = self.first["provenance"]
        return result

    @property
    def notes(self) -> dict[str, int]:
        """Note → of how many inputs, the commonest first."""
        return dict(self.noted.most_common())

    def array(self, name: str) -> Array:
        """A column: input × what a cell holds."""
        return np.array(self.columns[name], dtype=np.float64)

    def _notes(self, told: dict[str, Any]) -> list[str]:
        """Those of an input, whose other facts are kept as far as they are the first or the same as all others."""
        references = told["provenance"].get("references", {})
        if not self.first:
            self.first, self.shared = told, {name: dict(of_one) for name, of_one in references.items()}
        for name, known in self.shared.items():
            own = references.get(name, {})
            self.shared[name] = {key: value for key, value in known.items() if key in own and own[key] == value}
        noted: list[str] = told["notes"]
        return noted


def with_left_out(source: str, left_out: Mapping[str, int]) -> str:
    """Where inputs come from, and how many of them could not be measured, for results that have no notes."""
    names = [f"{count:,} left out: {reason.partition(';')[0]}" for reason, count in _fewer(left_out).items()]
    return ", ".join([source, *names])


def _fewer(reasons: Mapping[str, int]) -> dict[str, int]:
    """The commonest, and all others as one."""
    ordered = Counter(reasons).most_common()
    others = sum(count for _, count in ordered[_REASONS:])
    return dict(ordered[:_REASONS]) | ({"other reasons": others} if others else {})


class Noting(Protocol):
    """An explanation, a probe."""

    @property
    def notes(self) -> tuple[str, ...]: ...


def counted(several: Iterable[Noting]) -> Mapping[str, int]:
    """Note → in how many of them it stands, the commonest first."""
    return dict(Counter(note for noting in several for note in noting.notes).most_common())


@dataclass(frozen=True, eq=False)
class Comparison(TableResult):
    """How far methods agree with references. `c.cell("blankout", "rollout")` is the summary at the last layer.

    >>> model, tokenizer = attnx.load_demo()
    >>> few = {"methods": "rollout", "references": "lrp", "progress": False}
    >>> c = compare(model, tokenizer, ["the keys to the cabinet"], **few)
    >>> Comparison.from_json(c.to_json()) == c
    True
    """

    kind: ClassVar[str] = "comparison"
    rules: ClassVar[Rules] = {
        "layers": Rising(),
        "texts": Filled(),
        "values": SameNames(),
        "values.*.*": Shape("texts layers", undefined=True),
        "ceiling": NamedAs("values"),
        "ceiling.*.*": Shape("texts", undefined=True),
        "seed": Between(0),
        "notes.*": Between(1),
        **PROVENANCE,
    }

    measure: str
    layers: tuple[int, ...]
    values: Mapping[str, Mapping[str, Array]]
    """Reference → method → text × layer, NaN where agreement is undefined: one of the two is constant."""
    ceiling: Mapping[str, Mapping[str, Array]]
    """Reference → other reference → text: how far references agree among themselves, by their signs where both have
    one, else by size, as methods do with them."""
    texts: tuple[str, ...]
    seed: int = 0
    provenance: Mapping[str, Any] = field(default_factory=dict)
    notes: Mapping[str, int] = field(default_factory=dict, metadata=LATER)
    """What should be known of how texts were read and explained, such as that they were cut, and of how many."""

    @classmethod
    def of(cls, explanations: Sequence[Explanation], *, measure: str = "spearman", seed: int = 0) -> Comparison:
        """Compare what explanations carry: all their methods with all their references."""
        _check(explanations)
        return gathered_comparison(
            (cells_of(explanation, measure) for explanation in explanations), measure=measure, seed=seed
        )

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(next(iter(self.values.values())))

    @property
    def references(self) -> tuple[str, ...]:
        return tuple(self.values)

    def cell(self, reference: str, method: str, layer: int | None = None) -> Summary:
        """Mean, spread and 95 % interval over the texts, with the number of texts left out as undefined."""
        for noun, name, known in (("reference", reference, self.references), ("method", method, self.methods)):
            if name not in known:
                raise ChoiceError(unknown(noun, name, known))
        layer = self.layers[-1] if layer is None else layer
        if layer not in self.layers:
            raise ChoiceError(f"layer {layer} asked, the comparison has {', '.join(map(str, self.layers))}")
        return self._summaries[reference, method][self.layers.index(layer)]

    @cached_property
    def _summaries(self) -> dict[tuple[str, str], tuple[Summary, ...]]:
        return {
            (reference, method): tuple(Summary.of(layer, seed=self.seed) for layer in values.T)
            for reference, by_method in self.values.items()
            for method, values in by_method.items()
        }

    def plot(self, ax: Axes | None = None, reference: str | None = None) -> Any:
        """Agreement by layer, a line for each method with its 95 % interval: one panel for each reference.

        With `ax` only one `reference` is drawn, by default the first. Returns the axes.
        """
        return self._view.plot(self, ax, reference)

    def __repr__(self) -> str:
        return (
            f"Comparison({len(self.texts)} texts, {self.measure} of {', '.join(self.methods)} with "
            f"{', '.join(self.references)}, {len(self.layers)} layers)"
        )


def cells_of(explanation: Explanation, measure: str) -> Cells:
    """What one text adds: the agreement of each method with each reference, and of these among themselves."""
    by = MEASURES[measure]

    def correlation(name: str, scores: Array, reference: str) -> Array:
        units, signed = compared_over(explanation, name, reference), {name, reference} <= explanation.signed
        digits = explanation.digits.get(name)
        return rank_correlation(
            scores, explanation.references[reference], units, digits, both_signed=signed, measure=by
        )

    cells: Cells = {"text": explanation.title}
    for reference in explanation.references:
        for method in explanation.methods:
            layers = np.stack([explanation.scores(method, layer) for layer in explanation.layers])
            cells[f"{reference}/{method}"] = correlation(method, layers, reference)
        for other, scores in explanation.references.items():
            if other != reference:
                cells[f"{reference}//{other}"] = correlation(other, scores, reference)
    told = {"layers": explanation.layers, "methods": explanation.methods, "references": tuple(explanation.references)}
    return {**cells, FACTS: facts(provenance=explanation.provenance, notes=explanation.notes, **told)}


def gathered_comparison(
    rows: Iterable[Cells], left_out: Mapping[str, int] | None = None, *, measure: str, seed: int = 0
) -> Comparison:
    """Of the cells of many texts, in their order."""
    found = Gathered.of(rows, left_out)
    methods, references = found.first["methods"], found.first["references"]
    return Comparison(
        measure=measure,
        layers=tuple(found.first["layers"]),
        values={name: {method: found.array(f"{name}/{method}") for method in methods} for name in references},
        ceiling={
            name: {other: found.array(f"{name}//{other}") for other in references if other != name}
            for name in references
        },
        texts=tuple(found.columns["text"]),
        seed=seed,
        provenance={**found.provenance, "references": found.shared},
        notes=found.notes,
    )


def _check(explanations: Sequence[Explanation]) -> None:
    if not explanations:
        raise InputError("a comparison needs at least one explanation")
    first = explanations[0]
    if not first.references:
        raise InputError("explanations without references cannot be compared: explain(…, references=('gradient',))")
    for explanation in explanations[1:]:
        shape = (explanation.layers, explanation.methods, tuple(explanation.references))
        if shape != (first.layers, first.methods, tuple(first.references)):
            raise InputError("explanations of one comparison need the same layers, methods and references")


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
    >>> few = {"methods": "rollout", "references": "lrp", "progress": False}
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
    baseline: str = ""
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
        blanked = f", blanked with {self.baseline}" if self.baseline else ""
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


def gathered_faithfulness(
    rows: Iterable[Cells], left_out: Mapping[str, int] | None = None, *, score: str, baseline: str, seed: int
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
        baseline=baseline,
        provenance=found.provenance,
        notes=found.notes,
    )


@dataclass(frozen=True, eq=False)
class Recommendation(TableResult):
    """Explainers by what removing their first words costs the answer, held against chance and against the best.

    `r.holds` are those that are better than chance, the best first; `explain(…, methods=r)` takes them.

    >>> model, tokenizer = attnx.load_demo()
    >>> texts = ["the keys to the cabinet", "the boy near the girls", "the girls", "a letter", "the dogs", "the key"]
    >>> r = recommend(model, tokenizer, texts, methods="rollout", references="lrp", random=2, progress=False)
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
    baseline: str
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
            "baseline": self.baseline,
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
        return dict(zip(self.explainers, sign_flips(differences, seed=self.seed).p.tolist(), strict=True))

    @cached_property
    def _pairs(self) -> dict[frozenset[str], float]:
        """Two explainers → p of their difference."""
        pairs = list(combinations(self.explainers, 2))
        if not pairs:
            return {}
        differences = np.stack([self.values[name] - self.values[other] for name, other in pairs], axis=1)
        return dict(zip(map(frozenset, pairs), sign_flips(differences, seed=self.seed).p.tolist(), strict=True))


def gathered_recommendation(found: Gathered, **told: Any) -> Recommendation:
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
