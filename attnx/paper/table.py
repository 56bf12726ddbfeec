"""A table over many trainings: which part of a number is the method, and which the luck of a training.

It keeps the whole table of each model, so that tables of further models can be merged into it. What is told over models
is computed from those.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, Self, TypeAlias, TypeVar

import numpy as np

from attnx.errors import ChoiceError, InputError
from attnx.registry import unknown
from attnx.results import PROVENANCE, SUMMARY, Between, Filled, NamedAs, Rules, TableResult
from attnx.statistics import Spread, Summary, Undefined

Which: TypeAlias = Literal["content", "all", "all but the last"]
Reference: TypeAlias = Literal["blank-out", "input gradients"]
GradientOf: TypeAlias = Literal["predicted logit", "positive logit", "probability difference"]
GradientReduction: TypeAlias = Literal["sum", "absolute sum", "norm"]
Rows: TypeAlias = Literal["CLS", "maximum"]

MeanDeviation: TypeAlias = tuple[float, float]
Published: TypeAlias = Mapping[str, tuple[MeanDeviation | None, ...]]
"""Method → mean and standard deviation at layers 1, 2, …; None at a layer that the paper does not print."""

_SCORES: Mapping[GradientOf, str] = {
    "predicted logit": "logit(predicted)",
    "positive logit": "logit(positive)",
    "probability difference": "(p0 − p1)",
}
_REDUCTIONS: Mapping[GradientReduction, str] = {
    "sum": "signed sum",
    "absolute sum": "absolute of the signed sum",
    "norm": "L2 norm",
}


@dataclass(frozen=True)
class Protocol:
    """Every choice that a table depends on and that is not the method's own."""

    name: str
    blanked: Which
    """Positions that blank-out replaces; the others score 0."""
    gradient_of: GradientOf
    gradient_reduction: GradientReduction
    ranked: Which
    """Positions that are ranked and correlated."""
    ranks: Literal["average", "dense"]
    """Spearman's average ranks, or the authors' dense ranks with the formula 1 − 6Σd²/(n(n²−1))."""
    undefined: Undefined
    """What an example without a correlation counts for."""
    rows: Rows = "CLS"
    """Relevance as CLS sees it, or for each position the most that any row gives it."""
    embedded_twice: bool = False
    """Whether position embeddings and LayerNorm are applied to what had them already, before gradients are taken."""

    def describe(self, reference: Reference) -> str:
        """One line for the foot of a table whose columns are of this reference."""
        formula = "average ranks" if self.ranks == "average" else "dense ranks with 1 − 6Σd²/(n(n²−1))"
        measured = (
            f"{self.blanked} positions blanked"
            if reference == "blank-out"
            else f"{_REDUCTIONS[self.gradient_reduction]} of ∂{_SCORES[self.gradient_of]}/∂embedding"
        )
        if self.embedded_twice:
            measured += " (position embedding and LayerNorm applied twice)"
        if self.rows == "maximum":
            measured += "; relevance as the maximum over all rows"
        undefined = "left out" if self.undefined == "left out" else "counted as 0"
        return f"{measured}; {self.ranked} positions ranked; {formula}; undefined examples {undefined}"


@dataclass(frozen=True)
class ByProtocol:
    """One protocol's numbers: method → one summary for each layer, and the share of flow values that tie."""

    protocol: Protocol
    cells: Mapping[str, tuple[Summary, ...]]
    tied: tuple[float, ...]


def _one_a_layer(measured: ByProtocol, _: Any) -> str | None:
    layers = len(measured.tied)
    fits = layers and measured.cells and all(len(cells) == layers for cells in measured.cells.values())
    return None if fits else f"with {layers} summaries for each method, one for each of its tied shares"


@dataclass(frozen=True, eq=False)
class Table(TableResult):
    """A table of the paper, published and reproduced."""

    kind: ClassVar[str] = "table"
    rules: ClassVar[Rules] = {
        "measured": Filled(),
        "measured.*": _one_a_layer,
        "measured.*.cells.*.*": SUMMARY,
        "samples": Between(0),
        **PROVENANCE,
    }
    indent: ClassVar[int | None] = 2

    title: str
    reference: Reference
    published: Published
    measured: tuple[ByProtocol, ...]
    samples: int
    source: str
    accuracy: float | None
    """Of the model on these very sentences; None where their labels are not public."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    majority: float | None = None
    """The share of the sentences that have the most frequent label: what a model that always says so is right in."""


@dataclass(frozen=True)
class Shares:
    """Where the relevance of one measure lies, over the sentences that were predicted right, or wrong."""

    measure: str
    predictions: str
    subject: Summary
    attractors: Summary
    other: Summary
    subject_first: Summary
    """How often the subject is the word that matters most."""


@dataclass(frozen=True, eq=False)
class SubjectTable(TableResult):
    """Shares of each method and reference, for right and for wrong predictions."""

    kind: ClassVar[str] = "subject table"
    rules: ClassVar[Rules] = {
        "layer": Between(1),
        "shares": Filled(),
        **{f"shares.*.{part}": SUMMARY for part in ("subject", "attractors", "other", "subject_first")},
        **PROVENANCE,
    }
    indent: ClassVar[int | None] = 2

    layer: int
    source: str
    shares: tuple[Shares, ...]
    attractors_known: bool
    provenance: Mapping[str, Any] = field(default_factory=dict)


UNNAMED, ALL = "no named recipe", "all recipes"


@dataclass(frozen=True)
class PaperClaim:
    """A sentence of the paper as a number of one model: the claim holds in it where that is above 0."""

    name: str
    says: str
    margin: Callable[[ByProtocol], float | None]
    """What is averaged over models."""
    weakest: Callable[[ByProtocol], float | None]
    """What decides whether it holds in one of them."""


def _means(measured: ByProtocol, method: str) -> list[float | None]:
    return [cell.mean for cell in measured.cells.get(method, ())]


def _gaps(measured: ByProtocol, above: str, below: str, layers: slice) -> list[float]:
    pairs = zip(_means(measured, above)[layers], _means(measured, below)[layers], strict=False)  # one may be missing
    return [high - low for high, low in pairs if high is not None and low is not None]


def _over(combine: Callable[[list[float]], Any], above: str, below: str, layers: slice) -> Callable[[ByProtocol], Any]:
    def read(measured: ByProtocol) -> float | None:
        gaps = _gaps(measured, above, below, layers)
        return float(combine(gaps)) if gaps else None

    return read


_LAST, _UPPER = slice(-1, None), slice(1, None)
CLAIMS = (
    PaperClaim(
        "flow above rollout",
        "at the last layer flow agrees better than rollout",
        margin=_over(np.mean, "flow", "rollout", _LAST),
        weakest=_over(min, "flow", "rollout", _LAST),
    ),
    PaperClaim(
        "raw fails above layer 1",
        "at every layer above the first, raw attention agrees less than rollout",
        margin=_over(np.mean, "rollout", "raw", _UPPER),
        weakest=_over(min, "rollout", "raw", _UPPER),
    ),
)

One = TypeVar("One", Table, SubjectTable)


@dataclass(frozen=True, eq=False)
class OverModels(TableResult, Generic[One]):
    """What both kinds share. `tables[name]` is the table of one model."""

    indent: ClassVar[int | None] = 2

    tables: Mapping[str, One]
    recipes: Mapping[str, str]
    """Model → the recipe that it was trained by; models of one recipe are trainings of the same thing."""
    same_sentences: bool = True
    """Whether all models were measured on the same sentences."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """What is to be known of the whole; each table has its own."""

    def __post_init__(self) -> None:
        check_alike(self.tables)

    @property
    def by_recipe(self) -> dict[str, tuple[str, ...]]:
        """Recipe → its models, in the order in which they came."""
        return {
            recipe: tuple(name for name in self.tables if self.recipes[name] == recipe)
            for recipe in dict.fromkeys(self.recipes[name] for name in self.tables)
        }

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """The recipes, and where they are several, all of them together."""
        several = len(self.by_recipe) > 1
        return {**self.by_recipe, **({ALL: tuple(self.tables)} if several else {})}

    @classmethod
    def merge(cls, parts: Sequence[Self]) -> Self:
        """One table of the models of all parts; the same model in two of them is an error."""
        names = [name for part in parts for name in part.tables]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice or not parts:
            raise InputError(f"{', '.join(twice)} is in two of the parts" if twice else "no part to merge")
        tables = [table for part in parts for table in part.tables.values()]
        sources = {table.source for table in tables}
        return cls(
            {name: table for part in parts for name, table in part.tables.items()},
            {name: recipe for part in parts for name, recipe in part.recipes.items()},
            same_sentences=len(sources) == 1 and all(part.same_sentences for part in parts),
        )

    def _recipe(self, recipe: str) -> tuple[str, ...]:
        if recipe not in self.groups:
            raise ChoiceError(unknown("recipe", recipe, tuple(self.groups)))
        return self.groups[recipe]


def check_alike(tables: Mapping[str, Table | SubjectTable]) -> None:
    """That there are tables, and that they have the same rows and columns."""
    shapes = {_shape(table): name for name, table in tables.items()}
    if len(shapes) != 1:
        told = "; ".join(f"{name} has {shape}" for shape, name in shapes.items())
        raise InputError(f"a table over models is of one kind and shape: {told or 'there is no model'}")


def _shape(table: Table | SubjectTable) -> str:
    """What the tables of all models have in common."""
    if isinstance(table, SubjectTable):
        return f"subject at layer {table.layer}"
    protocols = (f"{one.protocol.name} ({', '.join(one.cells)} at {len(one.tied)} layers)" for one in table.measured)
    return f"{table.title}, {', '.join(protocols)}"


def _same_cells(tables: Mapping[str, Table], _: Any) -> str | None:
    """Under every protocol of every model the same methods at the same layers, and among them those of the paper."""
    shapes = {(tuple(one.cells), len(one.tied)) for table in tables.values() for one in table.measured}
    protocols = {tuple(one.protocol.name for one in table.measured) for table in tables.values()}
    published = {method for table in tables.values() for method in table.published}
    fits = len(shapes) == len(protocols) == 1 and published <= set(next(iter(shapes))[0])
    return None if fits else "tables with the same protocols, methods and layers, the published methods among them"


@dataclass(frozen=True, eq=False)
class Trainings(OverModels[Table]):
    """A table of the paper over many models."""

    kind: ClassVar[str] = "trainings"
    rules: ClassVar[Rules] = {
        "recipes": NamedAs("tables"),
        "tables": _same_cells,
        **PROVENANCE,
        **{f"tables.*.{path}": rule for path, rule in Table.rules.items()},
    }

    tables: Mapping[str, Table]

    @property
    def protocols(self) -> tuple[Protocol, ...]:
        return tuple(one.protocol for one in self._first.measured)

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(self._first.measured[0].cells)

    @property
    def layers(self) -> int:
        return len(self._first.measured[0].tied)

    def published(self, method: str) -> list[MeanDeviation | None]:
        """What the paper prints, layer by layer; None where it prints nothing."""
        return [*self._first.published.get(method, ()), *[None] * self.layers][: self.layers]

    def cell(self, recipe: str, protocol: str, method: str, layer: int) -> Spread:
        """The means of the recipe's models, layers from 1."""
        return Spread.of([one.cells[method][layer - 1].mean for one in self.measured(recipe, protocol).values()])

    def between_sentences(self, recipe: str, protocol: str, method: str, layer: int) -> float | None:
        """The deviation over sentences within a model, averaged over the recipe's models."""
        return Spread.of(
            [one.cells[method][layer - 1].deviation for one in self.measured(recipe, protocol).values()]
        ).mean

    def claim(self, claim: PaperClaim, recipe: str, protocol: str) -> tuple[Spread, int]:
        """Its margin over the recipe's models, and in how many of them it holds."""
        measured = self.measured(recipe, protocol).values()
        weakest = [claim.weakest(one) for one in measured]
        return Spread.of([claim.margin(one) for one in measured]), sum(
            value is not None and value > 0 for value in weakest
        )

    def luck(self, recipe: str, protocol: str) -> float | None:
        """How much a training moves a number: the deviation between models, averaged over the paper's cells."""
        cells = [
            self.cell(recipe, protocol, method, layer).deviation
            for method in self._first.published
            for layer in range(1, self.layers + 1)
        ]
        return Spread.of(cells).mean

    def measured(self, recipe: str, protocol: str) -> dict[str, ByProtocol]:
        """Model → its numbers under a protocol."""
        place = [one.name for one in self.protocols].index(protocol)
        return {name: self.tables[name].measured[place] for name in self._recipe(recipe)}

    @property
    def _first(self) -> Table:
        return next(iter(self.tables.values()))


@dataclass(frozen=True, eq=False)
class SubjectTrainings(OverModels[SubjectTable]):
    """The shares of the subject check over many models."""

    kind: ClassVar[str] = "subject over trainings"
    rules: ClassVar[Rules] = {
        "recipes": NamedAs("tables"),
        **PROVENANCE,
        **{f"tables.*.{path}": rule for path, rule in SubjectTable.rules.items()},
    }

    tables: Mapping[str, SubjectTable]

    def shares(self, recipe: str) -> dict[tuple[str, str], dict[str, Shares]]:
        """(predictions, measure) → model → where its relevance lies."""
        found: dict[tuple[str, str], dict[str, Shares]] = {}
        for name in self._recipe(recipe):
            for share in self.tables[name].shares:
                found.setdefault((share.predictions, share.measure), {})[name] = share
        return dict(sorted(found.items(), key=lambda item: item[0][0]))
