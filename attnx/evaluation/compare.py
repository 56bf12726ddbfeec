"""`compare(model, tokenizer, texts)`: does attention agree with what can be measured on the model itself?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, ClassVar

import numpy as np

from attnx.arguments import checked
from attnx.attribution import AskedReferences, asked_references
from attnx.errors import ChoiceError, InputError
from attnx.evaluation.table import EvaluationTable, interval_text, plural
from attnx.evaluation.task import CollectedRows, ExplainedRowsTask, facts
from attnx.methods import PAPER_METHODS
from attnx.pipeline import given_model, takes_pipelines
from attnx.registry import unknown
from attnx.results import (
    Array,
    Explanation,
    Filled,
    Rising,
    Rules,
    Shape,
    compared_over,
    layered,
    rank_correlation,
    record_of,
    unlayered,
)
from attnx.runs import FACTS, Cells, OutputOptions
from attnx.statistics import MEASURES, Summary

_LAYERS_SHOWN = 8
"""A terminal is 80 columns wide; of deeper models some layers are shown, the first and the last among them."""


def _references_by_layers(columns: tuple[str, ...], result: Any) -> str | None:
    expected = tuple(f"{name} L{layer}" for name in result.whole.ceiling for layer in result.whole.layers)
    return None if columns == expected else f"each reference at each layer ({', '.join(expected)})"


@dataclass(frozen=True, eq=False, kw_only=True)
class Comparison(EvaluationTable):
    """How far methods agree with references. `c.cell("rollout", "blankout")` is the summary at the last layer.

    The columns are references at layers: `c.cell("rollout", "blankout L1")` is at the first. A number is NaN where
    agreement is undefined, because one of the two rankings is constant.

    Example:
        >>> model, tokenizer = attnx.load_demo()
        >>> few = {"methods": "rollout", "against": "lrp", "progress": False}
        >>> c = compare(model, tokenizer, ["the keys to the cabinet"], **few)
        >>> Comparison.from_json(c.to_json()) == c
        True
    """

    kind: ClassVar[str] = "comparison"
    intervals: ClassVar[bool] = False
    rules: ClassVar[Rules] = {
        **EvaluationTable.rules,
        "layers": Rising(),
        "columns": _references_by_layers,
        "texts": Filled(),
        "values.*": Shape("texts columns", undefined=True),
        "ceiling": Filled(),
        "ceiling.*.*": Shape("texts", undefined=True),
    }

    measure: str
    layers: tuple[int, ...]
    ceiling: Mapping[str, Mapping[str, Array]]
    """Reference → other reference → text: how far references agree with each other, by their signs where both have
    one, otherwise by size, as methods do with them."""
    texts: tuple[str, ...]

    @classmethod
    def of(cls, explanations: Sequence[Explanation], *, measure: str = "spearman", seed: int = 0) -> Comparison:
        """Compare what explanations contain: all their methods with all their references."""
        _check(explanations)
        return comparison_of_rows((row_of(explanation, measure) for explanation in explanations), measure, seed)

    @property
    def references(self) -> tuple[str, ...]:
        return tuple(self.ceiling)

    def layer_values(self, method: str, reference: str) -> Array:
        """The agreement of a method with a reference: text × layer."""
        columns = self.columns_of(reference)
        return np.stack([self.array(method, column) for column in columns], axis=1)

    def columns_of(self, reference: str) -> tuple[str, ...]:
        """The columns of a reference, a layer each."""
        if reference not in self.references:
            raise ChoiceError(unknown("reference", reference, self.references))
        return tuple(f"{reference} L{layer}" for layer in self.layers)

    def groups(self) -> Mapping[str, tuple[str, ...]]:
        from attnx.views import with_baseline

        inputs = plural(self.count, "text" if any(self.texts) else "input")
        places = np.linspace(0, len(self.layers) - 1, min(len(self.layers), _LAYERS_SHOWN)).round().astype(int)
        return {
            f"Agreement with {with_baseline(self.provenance, reference)}: {self.measure}, mean of {inputs}": tuple(
                self.columns_of(reference)[place] for place in places
            )
            for reference in self.references
        }

    def label(self, column: str) -> str:
        return column.rpartition(" ")[2]

    def lines(self, columns: tuple[str, ...]) -> list[list[str]]:
        head, *rows = super().lines(columns)
        if self.count == 1:
            return [head, *rows]
        lines = [[*head, f"95 % at L{self.layers[-1]}", "undefined"]]
        for row in rows:
            counts = {self.cell(row[0], column).undefined for column in columns}
            undefined = f"up to {max(counts)}" if len(counts) > 1 else str(max(counts))
            lines.append([*row, interval_text(self.cell(row[0], columns[-1])), undefined])
        return lines

    def foot(self) -> tuple[str, ...]:
        from attnx.views import decimals

        return tuple(
            f"For scale: the {self.measure} of {other} with {reference} is "
            f"{decimals(Summary.of(values, seed=self.seed).mean)}."
            for number, (reference, others) in enumerate(self.ceiling.items())
            for other, values in others.items()
            if other in self.references[number:]
        )

    def rows(self) -> list[dict[str, Any]]:
        """A record for each text, reference, method and layer."""
        return [
            {"text": number, "reference": reference, "method": method, "layer": layer, self.measure: value}
            for reference in self.references
            for method in self.methods
            for number, row in enumerate(self.layer_values(method, reference).tolist())
            for layer, value in zip(self.layers, row, strict=True)
        ]

    def draw(self, ax: Any = None, reference: str | None = None) -> Any:
        """Agreement by layer, a line for each method with its 95 % interval: one panel for each reference.

        With `ax` only one `reference` is drawn, by default the first. Returns the axes.
        """
        from attnx.evaluation.view import plot_comparison

        return plot_comparison(self, ax, reference)

    def __repr__(self) -> str:
        return (
            f"Comparison({plural(self.count, 'text')}, {self.measure} of {', '.join(self.methods)} with "
            f"{', '.join(self.references)}, {len(self.layers)} layers)"
        )

    def _column(self, column: str | None) -> str:
        """A reference alone stands for its last layer."""
        name = self.references[0] if column is None else column
        return self.columns_of(name)[-1] if name in self.references else super()._column(name)


def row_of(explanation: Explanation, measure: str) -> Cells:
    """The agreement of each method with each reference, and of the references with each other, in one text."""
    by = MEASURES[measure]

    def correlation(name: str, scores: Array, reference: str) -> Array:
        first, second = explanation.attributions[name], explanation.attributions[reference]
        signed, units = first.signed and second.signed, compared_over(explanation, name, reference)
        return rank_correlation(scores, second.scores, units, first.precision, both_signed=signed, measure=by)

    cells: Cells = {"text": explanation.title}
    for reference in unlayered(explanation):
        for method in layered(explanation):
            layers = np.stack([explanation.scores(method, layer) for layer in explanation.layers])
            cells[f"{reference}/{method}"] = correlation(method, layers, reference)
        for other in unlayered(explanation):
            if other != reference:
                cells[f"{reference}//{other}"] = correlation(other, explanation[other], reference)
    names = {"layers": explanation.layers, "methods": layered(explanation), "references": unlayered(explanation)}
    return {**cells, FACTS: facts(provenance=record_of(explanation), notes=explanation.notes, **names)}


def comparison_of_rows(
    rows: Iterable[Cells], measure: str, seed: int = 0, left_out: Mapping[str, int] | None = None
) -> Comparison:
    """The table of the rows of many texts, in their order."""
    collected = CollectedRows.of(rows, left_out)
    methods, references, layers = (collected.first[name] for name in ("methods", "references", "layers"))
    return Comparison(
        values={
            method: np.concatenate([collected.array(f"{name}/{method}") for name in references], axis=1)
            for method in methods
        },
        columns=tuple(f"{name} L{layer}" for name in references for layer in layers),
        measure=measure,
        layers=tuple(layers),
        ceiling={
            name: {other: collected.array(f"{name}//{other}") for other in references if other != name}
            for name in references
        },
        texts=tuple(collected.columns["text"]),
        seed=seed,
        provenance={**collected.provenance, "methods": collected.shared},
        notes=collected.notes,
    )


def _check(explanations: Sequence[Explanation]) -> None:
    if not explanations:
        raise InputError("a comparison needs at least one explanation")
    first = explanations[0]
    if not unlayered(first):
        raise InputError("nothing was measured to compare with: explain(…, methods=['rollout', 'gradient'])")
    for explanation in explanations[1:]:
        shape = (explanation.layers, layered(explanation), unlayered(explanation))
        if shape != (first.layers, layered(first), unlayered(first)):
            raise InputError("explanations of one comparison need the same layers, methods and references")


@takes_pipelines("texts")
@checked
def compare(
    model: Any,
    tokenizer: Any = None,
    texts: Any = None,
    *,
    methods: Sequence[str] | str = PAPER_METHODS,
    against: AskedReferences = ("gradient", "blankout"),
    measure: str = "spearman",
    progress: bool = True,
    seed: int = 0,
    run_dir: str | PathLike[str] | None = None,
    **options: Any,
) -> Comparison:
    """Measure how far each method agrees at every layer with those that it is compared `against`, over all `texts`.

    Content positions are ranked, special tokens are not; a signed reference counts by its size.

    Args:
        against: Names of methods that run the model, or names with options: `{"blankout": {"unit": "word"}}`.
        measure: "spearman", "kendall" or "top_k".
        run_dir: A folder in which the work is saved; the same call resumes where a stopped one was. `texts` is then
            whatever `explain_dataset` takes, and so are its options `column`, `shard_rows`, `engine`, `workers` and
            `num_gpus`; a row that cannot be measured is left out, and the notes say why.
        options: Those of `explain`: target, position, head, residual, truncate.

    Example:
        >>> model, tokenizer = attnx.load_demo()
        >>> few = {"methods": "rollout", "against": "lrp", "progress": False}
        >>> c = compare(model, tokenizer, ["the keys to the cabinet"], **few)
        >>> c.cell("rollout", "lrp").count
        1
    """
    MEASURES[measure]
    reference_options = asked_references(against)
    if not reference_options:
        raise InputError("a comparison needs a method to compare with: against=('gradient', 'blankout')")
    output_options, options = OutputOptions.taken(run_dir, options)
    task = ComparisonTask({"methods": methods, "references": reference_options, **options}, measure, seed)
    result: Comparison = output_options.result(task, given_model(model, tokenizer), texts, progress=progress)
    return result


@dataclass(frozen=True)
class ComparisonTask(ExplainedRowsTask):
    """How far the methods and references of explanations agree."""

    name: ClassVar[str] = "comparison"

    def row(self, explanation: Explanation) -> Cells:
        return row_of(explanation, self.measure)

    def result(self, cells: Iterable[Cells], left_out: Mapping[str, int]) -> Comparison:
        return comparison_of_rows(cells, self.measure, self.seed, left_out)
