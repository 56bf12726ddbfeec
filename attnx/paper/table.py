"""A table of the paper, published and reproduced: correlations of methods with a reference, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from attnx.evaluation import EvaluationTable, note_blocks
from attnx.results import Filled, Rules
from attnx.statistics import Summary, Undefined
from attnx.views import LOOKS, TextBlock, decimals

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
    """Relevance as CLS sees it, or for each position the maximum over all query positions."""
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

    def columns(self, layers: int) -> tuple[str, ...]:
        """Of a table: one for each layer."""
        return tuple(f"{self.name} {layer}" for layer in range(1, layers + 1))


def _tied_rule(tied: Mapping[str, tuple[float, ...]], result: Any) -> str | None:
    columns = tuple(column for protocol in result.whole.protocols for column in protocol.columns(result.whole.layers))
    fits = (
        tied and set(tied) == {protocol.name for protocol in result.whole.protocols} and columns == result.whole.columns
    )
    return None if fits else "a share for each layer of each protocol, as the columns have them"


@dataclass(frozen=True, eq=False, kw_only=True)
class PaperTable(EvaluationTable):
    """Correlations of each method with the reference: `table.cell("flow", "corrected 6")` is the mean at layer 6."""

    kind: ClassVar[str] = "paper table"
    rules: ClassVar[Rules] = {**EvaluationTable.rules, "protocols": Filled(), "tied": _tied_rule}

    title: str
    reference: Reference
    published: Published
    protocols: tuple[Protocol, ...]
    tied: Mapping[str, tuple[float, ...]]
    """Protocol → the share of flow values that tie, for each layer."""
    source: str
    accuracy: float | None
    """Of the model on these very sentences; None where their labels are not public."""
    majority: float | None = None
    """The share of the sentences that have the most frequent label."""

    @property
    def layers(self) -> int:
        return len(self.columns) // len(self.protocols)

    def cell(self, method: str, column: str | None = None) -> Summary:
        """The mean over the sentences; what an undefined one counts for is the protocol's."""
        key = method, self._column(column)
        if key not in self._cells:
            name = key[1].rpartition(" ")[0]
            undefined = next(protocol.undefined for protocol in self.protocols if protocol.name == name)
            self._cells[key] = Summary.of(self.array(*key), undefined=undefined, seed=self.seed)
        return self._cells[key]

    def by_layer(self, method: str, protocol: Protocol) -> tuple[Summary, ...]:
        """The cells of a method, from the layer closest to the input."""
        return tuple(self.cell(method, column) for column in protocol.columns(self.layers))

    def published_by_layer(self, method: str) -> list[MeanDeviation | None]:
        """What the paper prints; None where it prints nothing."""
        return [*self.published.get(method, ()), *[None] * self.layers][: self.layers]

    def blocks(self) -> list[TextBlock]:
        """One for each protocol."""
        right = "" if self.accuracy is None else f" (model right in {self.accuracy:.1%}{self._beside_majority()})"
        blocks = []
        for protocol in self.protocols:
            undefined = max(cell.undefined for name in self.methods for cell in self.by_layer(name, protocol))
            count = f"up to {undefined:,} in a cell" if undefined else "there are none"
            described = protocol.describe(self.reference)
            about = f"{self.title}, {self.reference}, protocol {protocol.name}"
            blocks.append(
                TextBlock(
                    heading=f"{about}: {self.count:,} sentences of {self.source}{right}",
                    lines=self._lines(protocol),
                    foot=(f"{described[0].upper()}{described[1:]} ({count}).",),
                )
            )
        return [*blocks, *note_blocks(self.notes, self.count)]

    def rows(self) -> list[dict[str, Any]]:
        """A record for each protocol, method and layer."""
        return [
            {
                "protocol": protocol.name,
                "method": method,
                "layer": layer,
                "published": None if known is None else known[0],
                **vars(cell),
            }
            for protocol in self.protocols
            for method in self.methods
            for layer, (known, cell) in enumerate(
                zip(self.published_by_layer(method), self.by_layer(method, protocol), strict=True), 1
            )
        ]

    def draw(self, ax: Any = None) -> Any:
        """A panel for each protocol: the means by layer with their 95 % intervals, those of the paper dashed."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(4.4 * len(self.protocols), 3.4), layout="constrained")
        panels = figure.subplots(1, len(self.protocols), sharey=True, squeeze=False)[0]
        for panel, protocol in zip(panels, self.protocols, strict=True):
            for number, method in enumerate(self.methods):
                color, mark = LOOKS[number % len(LOOKS)]
                cells = self.by_layer(method, protocol)
                known = [(layer, cell) for layer, cell in enumerate(cells, 1) if cell.mean is not None]
                mean, low, high = ([getattr(cell, end) for _, cell in known] for end in ("mean", "low", "high"))
                layers = [layer for layer, _ in known]
                panel.plot(layers, mean, color=color, marker=mark, markersize=4, label=method)
                panel.fill_between(layers, low, high, color=color, alpha=0.15, linewidth=0)
                paper = {layer: pair[0] for layer, pair in enumerate(self.published_by_layer(method), 1) if pair}
                panel.plot(list(paper), list(paper.values()), color=color, linestyle="--")
            panel.set_title(f"{self.title}, {protocol.name}", fontsize=10)
            panel.set_xlabel("layer")
            panel.spines[["top", "right"]].set_visible(False)
        panels[0].set_ylabel(f"correlation with {self.reference}")
        panels[-1].legend(frameon=False)
        return figure

    def _beside_majority(self) -> str:
        """Whether the model knows the task at all, which its numbers rest on."""
        if self.majority is None or self.accuracy is None or self.accuracy > self.majority:
            return ""
        if self.majority == 1:
            return ", but all sentences have the same label"
        return f", NO BETTER THAN ALWAYS THE MOST FREQUENT LABEL: {self.majority:.1%}"

    def _lines(self, protocol: Protocol) -> list[list[str]]:
        lines = [["", "", *(f"L{layer}" for layer in range(1, self.layers + 1))]]
        for method in self.methods:
            cells, known = self.by_layer(method, protocol), self.published_by_layer(method)
            paper = method in self.published
            if paper:
                lines.append([method, "published", *(_mean_deviation(*(pair or (None, None))) for pair in known)])
            reproduced = [_mean_deviation(cell.mean, cell.deviation) for cell in cells]
            lines.append(["" if paper else method, "reproduced", *reproduced])
            lines.append(["", "95 % of mean", *map(_interval, cells)])
            if paper:
                lines.append(["", "difference", *map(_difference, known, cells)])
            if any(cell.undefined for cell in cells):
                lines.append(["", "undefined", *(str(cell.undefined) for cell in cells)])
        return [*lines, ["", "tied share", *(f"{share:.0%}" for share in self.tied[protocol.name])]]


def _mean_deviation(mean: float | None, deviation: float | None) -> str:
    return "–" if mean is None else f"{decimals(mean)}±{decimals(deviation)}"


def _interval(cell: Summary) -> str:
    return "–" if cell.mean is None else f"{decimals(cell.low)} to {decimals(cell.high)}"


def _difference(published: MeanDeviation | None, cell: Summary) -> str:
    if published is None or cell.mean is None:
        return "–"
    difference = round(cell.mean, 2) - published[0]
    return f"+{decimals(difference)}" if difference > 0.005 else decimals(difference)
