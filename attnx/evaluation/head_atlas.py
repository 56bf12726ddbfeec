"""`head_atlas(model, tokenizer, texts)`: every head of every layer by itself, over one text or many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from attnx._signals import cached_property
from attnx.arguments import checked
from attnx.attribution import AskedReferences, asked_references
from attnx.errors import ChoiceError, InputError, how_many
from attnx.evaluation.compare import Explained
from attnx.evaluation.evaluation_table import FACTS, Gathered, facts
from attnx.methods import RAW, asked_methods, scores_for_ranking
from attnx.pipeline import given_model, takes_pipelines
from attnx.registry import unknown
from attnx.results import LATER, PROVENANCE, Array, Between, Explanation, Filled, Rising, Rules, Shape, TableResult
from attnx.runs import Cells, OutputOptions
from attnx.statistics import MEASURES, Summary, agree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CARRIED = "carried"


@dataclass(frozen=True)
class HeadScore:
    """One head, and its mean over the texts."""

    layer: int
    head: int
    summary: Summary


@dataclass(frozen=True, eq=False)
class HeadAtlas(TableResult):
    """Layer × head, by what the heads carry and by their agreement with references. `atlas.best(5)` names the top.

    >>> model, tokenizer = attnx.load_demo()
    >>> atlas = head_atlas(model, tokenizer, ["the keys to the cabinet"], references="lrp", progress=False)
    >>> HeadAtlas.from_json(atlas.to_json()) == atlas
    True
    """

    kind: ClassVar[str] = "atlas"
    rules: ClassVar[Rules] = {
        "layers": Rising(),
        "texts": Filled(),
        "values": Filled(named=[CARRIED]),
        "values.*": Shape("texts layers heads", undefined=True),
        "seed": Between(0),
        "notes.*": Between(1),
        **PROVENANCE,
    }

    method: str
    measure: str
    layers: tuple[int, ...]
    values: Mapping[str, Array]
    """"carried" and each reference → text × layer × head. Carried is raw attention from the explained position to other
    words; agreement is NaN where it is undefined, because a head or the reference is constant."""
    texts: tuple[str, ...]
    seed: int = 0
    provenance: Mapping[str, Any] = field(default_factory=dict)
    notes: Mapping[str, int] = field(default_factory=dict, metadata=LATER)
    """What should be known of how texts were read and explained, such as that they were cut, and of how many."""

    @classmethod
    def of(cls, explanations: Sequence[Explanation], *, measure: str = "spearman", seed: int = 0) -> HeadAtlas:
        """Of explanations by raw attention and one method with `head="all"`, and whatever references they carry."""
        _check(explanations)
        return gathered((cells_of(explanation, measure) for explanation in explanations), measure=measure, seed=seed)

    @property
    def heads(self) -> int:
        return int(self.values[CARRIED].shape[-1])

    @property
    def references(self) -> tuple[str, ...]:
        return tuple(name for name in self.values if name != CARRIED)

    def grid(self, by: str = CARRIED) -> Array:
        """layer × head: the mean over the texts, NaN where no text has a number."""
        cells = self._summaries(by)
        return np.array([[np.nan if cell.mean is None else cell.mean for cell in row] for row in cells])

    def cell(self, layer: int, head: int, by: str = CARRIED) -> Summary:
        """Mean, spread and 95 % interval over the texts of one head."""
        if layer not in self.layers:
            raise ChoiceError(f"layer {layer} asked, the atlas has {', '.join(map(str, self.layers))}")
        if not 0 <= head < self.heads:
            raise ChoiceError(f"head {head} asked, the atlas has {self.heads} (0 to {self.heads - 1})")
        return self._summaries(by)[self.layers.index(layer)][head]

    def best(self, count: int = 5, by: str = CARRIED) -> list[HeadScore]:
        """The heads with the highest means, best first; those without a number are left out."""
        scored = [
            HeadScore(layer, head, cell)
            for layer, row in zip(self.layers, self._summaries(by), strict=True)
            for head, cell in enumerate(row)
            if cell.mean is not None
        ]
        return sorted(scored, key=lambda head_score: -(head_score.summary.mean or 0.0))[: how_many(count)]

    def _summaries(self, by: str) -> tuple[tuple[Summary, ...], ...]:
        if by not in self.values:
            raise ChoiceError(unknown("grid", by, self.values))
        if by not in self._known:
            self._known[by] = tuple(
                tuple(Summary.of(texts, seed=self.seed) for texts in heads.T)
                for heads in np.moveaxis(self.values[by], 1, 0)
            )
        return self._known[by]

    @cached_property
    def _known(self) -> dict[str, tuple[tuple[Summary, ...], ...]]:
        return {}

    def plot(self, ax: Axes | None = None, by: str | None = None) -> Any:
        """The grids as heat maps, one panel each; with `ax` only one, by default "carried". Returns the axes."""
        return self._view.plot(self, ax, by)

    def __repr__(self) -> str:
        by = f", {self.measure} with {', '.join(self.references)}" if self.references else ""
        return f"HeadAtlas({self.method}, {len(self.layers)} layers × {self.heads} heads, {len(self.texts)} texts{by})"


def cells_of(explanation: Explanation, measure: str) -> Cells:
    """What one text adds: grids of layers and heads."""
    by, content, method = MEASURES[measure], explanation.content, explanation.methods[-1]
    scores = scores_for_ranking(explanation[method][..., content], explanation.digits.get(method))
    grids = {CARRIED: explanation["raw"][..., _others(explanation)].sum(-1)}
    for name, reference in explanation.references.items():
        both = {method, name} <= explanation.signed
        grids[name] = agree(by, scores, scores_for_ranking(reference[content]), both_signed=both)
    told = {"layers": explanation.layers, "method": method, "grids": tuple(grids)}
    return {
        "text": explanation.title,
        **grids,
        FACTS: facts(provenance=explanation.provenance, notes=explanation.notes, **told),
    }


def gathered(
    rows: Iterable[Cells], left_out: Mapping[str, int] | None = None, *, measure: str, seed: int = 0
) -> HeadAtlas:
    """Of the cells of many texts, in their order."""
    found = Gathered.of(rows, left_out)
    return HeadAtlas(
        method=found.first["method"],
        measure=measure,
        layers=tuple(found.first["layers"]),
        values={name: found.array(name) for name in found.first["grids"]},
        texts=tuple(found.columns["text"]),
        seed=seed,
        provenance=found.provenance,
        notes=found.notes,
    )


def _others(explanation: Explanation) -> list[int]:
    """Where attention that is carried comes from: neither the explained position nor the first token of a decoder."""
    left_out = {explanation.position, *([0] if explanation.causal else [])}
    return [place for place in explanation.content if place not in left_out]


def _check(explanations: Sequence[Explanation]) -> None:
    if not explanations:
        raise InputError("an atlas needs at least one explanation")
    first = explanations[0]
    method = first.methods[-1]
    for explanation in explanations:
        if explanation.methods not in (("raw",), ("raw", method)) or any(
            scores.ndim != 3 for scores in explanation.relevance.values()
        ):
            raise InputError("an atlas needs every head: explain(…, methods=('raw', 'rollout'), head='all')")
        if (explanation.layers, tuple(explanation.references)) != (first.layers, tuple(first.references)):
            raise InputError("explanations of one atlas need the same layers and references")


@takes_pipelines("texts")
@checked
def head_atlas(
    model: Any,
    tokenizer: Any = None,
    texts: Any = None,
    *,
    methods: Sequence[str] | str = ("rollout",),
    references: AskedReferences = ("gradient", "blankout"),
    measure: str = "spearman",
    progress: bool = True,
    seed: int = 0,
    run_dir: str | PathLike[str] | None = None,
    **options: Any,
) -> HeadAtlas:
    """What each head carries from the words to the explained position, and how far it agrees with each reference.

    A head carries the attention that it gives to other words than its own: not what stays, and not what goes to special
    tokens or to the first token of a decoder, where heads with nothing to do look. It agrees as far as the method (one
    of `methods`), with that head alone in its layer and heads merged below (Appendix A.1), ranks the words as the
    reference does.

    `measure` is "spearman", "kendall" or "top_k". `options` are those of `explain`: target, position, layer, residual,
    normalize, drop_sink, truncate. With `references=()` the model is run once and nothing is measured on it. With a
    folder as `run_dir` the work is kept there, and the same call goes on, as in `compare`.

    >>> model, tokenizer = attnx.load_demo()
    >>> atlas = head_atlas(model, tokenizer, ["the keys to the cabinet"], references="lrp", progress=False)
    >>> len(atlas.best(3))
    3
    """
    MEASURES[measure]
    rows = asked_methods(methods)
    if "head" in options or len(rows) > 1:
        raise ChoiceError("an atlas shows every head by one method: leave head= out, and give methods='rollout'")
    names = list(dict.fromkeys([RAW.name, rows[0].name]))  # what a head carries is raw attention
    keeping, options = OutputOptions.taken(run_dir, options)
    asked = {"methods": names, "head": "all", "references": asked_references(references), **options}
    result: HeadAtlas = keeping.result(
        Charting(asked, measure, seed), given_model(model, tokenizer), texts, progress=progress
    )
    return result


@dataclass(frozen=True)
class Charting(Explained):
    """The measurement: grids of layers and heads."""

    name: ClassVar[str] = "atlas"

    def of_each(self, explanation: Explanation) -> Cells:
        return cells_of(explanation, self.measure)

    def result(self, cells: Iterable[Cells], left_out: Mapping[str, int]) -> HeadAtlas:
        return gathered(cells, left_out, measure=self.measure, seed=self.seed)
