"""`head_atlas(model, tokenizer, texts)`: every head of every layer by itself, over one text or many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from attnx.arguments import checked
from attnx.attribution import AskedReferences, asked_references
from attnx.errors import ChoiceError, InputError, how_many
from attnx.evaluation.table import EvaluationTable, plural
from attnx.evaluation.task import CollectedRows, ExplainedRowsTask, facts
from attnx.methods import RAW, asked_methods, scores_for_ranking
from attnx.pipeline import given_model, takes_pipelines
from attnx.registry import unknown
from attnx.results import Array, Explanation, Filled, Rising, Rules, Shape, layered, record_of, unlayered
from attnx.runs import FACTS, Cells, OutputOptions
from attnx.statistics import MEASURES, Summary, agree

if TYPE_CHECKING:
    from attnx.views import TextBlock

CARRIED = "carried"
_BEST = 3
"""Heads that are named beneath a grid."""


@dataclass(frozen=True)
class HeadScore:
    """One head, and its mean over the texts."""

    layer: int
    head: int
    summary: Summary


def _layers_by_heads(columns: tuple[str, ...], result: Any) -> str | None:
    layers = result.whole.layers
    expected = tuple(f"L{layer} h{head}" for layer in layers for head in range(len(columns) // len(layers)))
    return None if columns and columns == expected else "each head of each layer (L1 h0, L1 h1, …)"


@dataclass(frozen=True, eq=False, kw_only=True)
class HeadAtlas(EvaluationTable):
    """Layer × head, by what the heads carry and by their agreement with references. `atlas.best(5)` names the top.

    The rows are "carried" and each reference, the columns are heads: `atlas.cell("carried", "L2 h3")`. Carried is raw
    attention from the explained position to other words; agreement is NaN where it is undefined, because the scores of
    a head or of the reference are constant.

    Example:
        >>> model, tokenizer = attnx.load_demo()
        >>> atlas = head_atlas(model, tokenizer, ["the keys to the cabinet"], against="lrp", progress=False)
        >>> HeadAtlas.from_json(atlas.to_json()) == atlas
        True
    """

    kind: ClassVar[str] = "atlas"
    rules: ClassVar[Rules] = {
        **EvaluationTable.rules,
        "layers": Rising(),
        "columns": _layers_by_heads,
        "texts": Filled(),
        "values": Filled(named=[CARRIED]),
        "values.*": Shape("texts columns", undefined=True),
    }

    method: str
    measure: str
    layers: tuple[int, ...]
    texts: tuple[str, ...]

    @classmethod
    def of(cls, explanations: Sequence[Explanation], *, measure: str = "spearman", seed: int = 0) -> HeadAtlas:
        """Of explanations by raw attention and one method with `head="all"`, and whatever references they contain."""
        _check(explanations)
        return atlas_of_rows((row_of(explanation, measure) for explanation in explanations), measure, seed)

    @property
    def heads(self) -> int:
        return len(self.columns) // len(self.layers)

    @property
    def references(self) -> tuple[str, ...]:
        return tuple(name for name in self.values if name != CARRIED)

    def head_values(self, by: str = CARRIED) -> Array:
        """text × layer × head."""
        if by not in self.values:
            raise ChoiceError(unknown("grid", by, self.values))
        return self.values[by].reshape(self.count, len(self.layers), self.heads)

    def grid(self, by: str = CARRIED) -> Array:
        """layer × head: the mean over the texts, NaN where no text has a number."""
        values = self.head_values(by)
        means = [self.cell(by, column).mean for column in self.columns]
        return np.array([np.nan if mean is None else mean for mean in means]).reshape(values.shape[1:])

    def best(self, count: int = 5, by: str = CARRIED) -> list[HeadScore]:
        """The heads with the highest means, best first; those without a number are left out."""
        scored = [
            HeadScore(self.layers[index // self.heads], index % self.heads, self.cell(by, column))
            for index, column in enumerate(self.columns)
        ]
        defined = [head_score for head_score in scored if head_score.summary.mean is not None]
        return sorted(defined, key=lambda head_score: -(head_score.summary.mean or 0.0))[: how_many(count)]

    def title(self, by: str) -> str:
        """What a grid shows."""
        return f"{self.method} against {by} ({self.measure})" if by in self.references else "carried from other words"

    def blocks(self) -> list[TextBlock]:
        """A grid for "carried" and for each reference, the last layer on top, and the best heads of each."""
        from attnx.evaluation.view import note_blocks
        from attnx.views import TextBlock, decimals

        blocks = []
        for by, values in self.values.items():
            lines = [["", *(f"h{head}" for head in range(self.heads))]]
            for layer, means in reversed(list(zip(self.layers, self.grid(by), strict=True))):
                lines.append([f"L{layer}", *(decimals(None if mean != mean else float(mean)) for mean in means)])
            best = ", ".join(
                f"layer {head_score.layer} head {head_score.head} ({decimals(head_score.summary.mean)})"
                for head_score in self.best(_BEST, by)
            )
            missing = int(np.isnan(values).sum())
            foot = (
                *([f"Highest: {best}."] if best else []),
                *([f"Undefined and left out: {missing} of {values.size}."] if missing else []),
            )
            heading = f"{self.title(by).capitalize()}, mean of {plural(self.count, 'text')}"
            blocks.append(TextBlock(heading, lines=lines, foot=foot))
        return [*blocks, *note_blocks(self.notes, self.count)]

    def rows(self) -> list[dict[str, Any]]:
        """A record for each text, layer and head."""
        grids = {by: self.head_values(by) for by in self.values}
        return [
            {"text": number, "layer": self.layers[layer], "head": head}
            | {by: float(values[number, layer, head]) for by, values in grids.items()}
            for number, layer, head in np.ndindex(grids[CARRIED].shape)
        ]

    def draw(self, ax: Any = None, by: str | None = None) -> Any:
        """The grids as heat maps, one panel each; with `ax` only one, by default "carried". Returns the axes."""
        from attnx.evaluation.view import plot_atlas

        return plot_atlas(self, ax, by)

    def __repr__(self) -> str:
        by = f", {self.measure} with {', '.join(self.references)}" if self.references else ""
        size = f"{len(self.layers)} layers × {self.heads} heads, {plural(self.count, 'text')}"
        return f"HeadAtlas({self.method}, {size}{by})"


def row_of(explanation: Explanation, measure: str) -> Cells:
    """Grids of layers and heads for one text."""
    by, content, method = MEASURES[measure], explanation.content, layered(explanation)[-1]
    scores = scores_for_ranking(explanation[method][..., content], explanation.attributions[method].precision)
    grids = {CARRIED: explanation["raw"][..., _others(explanation)].sum(-1)}
    for name in unlayered(explanation):
        both = explanation.attributions[method].signed and explanation.attributions[name].signed
        grids[name] = agree(by, scores, scores_for_ranking(explanation[name][content]), both_signed=both)
    names = {"layers": explanation.layers, "method": method, "grids": tuple(grids)}
    return {
        "text": explanation.title,
        **grids,
        FACTS: facts(provenance=record_of(explanation), notes=explanation.notes, **names),
    }


def atlas_of_rows(
    rows: Iterable[Cells], measure: str, seed: int = 0, left_out: Mapping[str, int] | None = None
) -> HeadAtlas:
    """The atlas of the rows of many texts, in their order."""
    collected = CollectedRows.of(rows, left_out)
    layers, texts = tuple(collected.first["layers"]), tuple(collected.columns["text"])
    grids = {name: collected.array(name) for name in collected.first["grids"]}
    return HeadAtlas(
        values={name: grid.reshape(len(texts), -1) for name, grid in grids.items()},
        columns=tuple(f"L{layer} h{head}" for layer in layers for head in range(grids[CARRIED].shape[-1])),
        method=collected.first["method"],
        measure=measure,
        layers=layers,
        texts=texts,
        seed=seed,
        provenance=collected.provenance,
        notes=collected.notes,
    )


def _others(explanation: Explanation) -> list[int]:
    """Where attention that is carried comes from: neither the explained position nor the first token of a decoder."""
    left_out = {explanation.position, *([0] if explanation.causal else [])}
    return [position for position in explanation.content if position not in left_out]


def _check(explanations: Sequence[Explanation]) -> None:
    if not explanations:
        raise InputError("an atlas needs at least one explanation")
    first = explanations[0]
    method = layered(first)[-1]
    for explanation in explanations:
        if layered(explanation) not in (("raw",), ("raw", method)) or any(
            explanation[name].ndim != 3 for name in layered(explanation)
        ):
            raise InputError("an atlas needs every head: explain(…, methods=('raw', 'rollout'), head='all')")
        if (explanation.layers, unlayered(explanation)) != (first.layers, unlayered(first)):
            raise InputError("explanations of one atlas need the same layers and references")


@takes_pipelines("texts")
@checked
def head_atlas(
    model: Any,
    tokenizer: Any = None,
    texts: Any = None,
    *,
    methods: Sequence[str] | str = ("rollout",),
    against: AskedReferences = ("gradient", "blankout"),
    measure: str = "spearman",
    progress: bool = True,
    seed: int = 0,
    run_dir: str | PathLike[str] | None = None,
    **options: Any,
) -> HeadAtlas:
    """Measure what each head carries from the words to the explained position, and how far it agrees with references.

    A head carries the attention that it gives to other words than its own: not what stays, and not what goes to special
    tokens or to the first token of a decoder, where heads with nothing to do look. It agrees as far as the method (one
    of `methods`), with that head alone in its layer and heads merged below (Appendix A.1), ranks the words as the
    reference does.

    Args:
        measure: "spearman", "kendall" or "top_k".
        against: Methods that run the model; with `()` the model is run once and nothing is measured on it.
        run_dir: A folder in which the work is saved and resumed, as in `compare`.
        options: Those of `explain`: target, position, layer, residual, normalize, drop_sink, truncate.

    Example:
        >>> model, tokenizer = attnx.load_demo()
        >>> atlas = head_atlas(model, tokenizer, ["the keys to the cabinet"], against="lrp", progress=False)
        >>> len(atlas.best(3))
        3
    """
    MEASURES[measure]
    rows = asked_methods(methods)
    if "head" in options or len(rows) > 1:
        raise ChoiceError("an atlas shows every head by one method: leave head= out, and give methods='rollout'")
    names = list(dict.fromkeys([RAW.name, rows[0].name]))  # what a head carries is raw attention
    output_options, options = OutputOptions.taken(run_dir, options)
    options = {"methods": names, "head": "all", "references": asked_references(against), **options}
    task = HeadAtlasTask(options, measure, seed)
    result: HeadAtlas = output_options.result(task, given_model(model, tokenizer), texts, progress=progress)
    return result


@dataclass(frozen=True)
class HeadAtlasTask(ExplainedRowsTask):
    """Grids of layers and heads."""

    name: ClassVar[str] = "atlas"

    def row(self, explanation: Explanation) -> Cells:
        return row_of(explanation, self.measure)

    def result(self, cells: Iterable[Cells], left_out: Mapping[str, int]) -> HeadAtlas:
        return atlas_of_rows(cells, self.measure, self.seed, left_out)
