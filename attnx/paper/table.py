"""A table over many trainings: which part of a number is the method, and which the luck of a training.

It keeps the whole table of each model, so that tables of further models can be merged into it. What is told over models
is computed from those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

from attnx.results import PROVENANCE, SUMMARY, Between, Filled, Rules, TableResult
from attnx.statistics import Summary, Undefined

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
