"""The result of a comparison: an agreement for each text, method, reference and layer, and its summaries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from attnx.agreement.registry import MEASURES
from attnx.agreement.summary import Summary
from attnx.errors import ChoiceError, InputError
from attnx.forks import cached_property
from attnx.registry import unknown
from attnx.results.explanation import Explanation, compared_over
from attnx.results.fit import PROVENANCE, Between, Filled, NamedAs, Rising, Rules, SameNames, Shape
from attnx.results.gathered import FACTS, Cells, Gathered, facts
from attnx.results.result import Array, TableResult
from attnx.results.schema import LATER
from attnx.results.units import rank_correlation

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class Comparison(TableResult):
    """How far methods agree with references. `c.cell("blankout", "rollout")` is the summary at the last layer.

    >>> model, tokenizer = attnx.load_demo()
    >>> few = {"methods": "rollout", "references": "value_path", "progress": False}
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
        return gathered((cells_of(one, measure) for one in explanations), measure=measure, seed=seed)

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


def cells_of(one: Explanation, measure: str) -> Cells:
    """What one text adds: the agreement of each method with each reference, and of these among themselves."""
    by = MEASURES[measure]

    def correlation(name: str, scores: Array, reference: str) -> Array:
        units, signed = compared_over(one, name, reference), {name, reference} <= one.signed
        digits = one.digits.get(name)
        return rank_correlation(scores, one.references[reference], units, digits, both_signed=signed, measure=by)

    cells: Cells = {"text": one.title}
    for reference in one.references:
        for method in one.methods:
            layers = np.stack([one.scores(method, layer) for layer in one.layers])
            cells[f"{reference}/{method}"] = correlation(method, layers, reference)
        for other, scores in one.references.items():
            if other != reference:
                cells[f"{reference}//{other}"] = correlation(other, scores, reference)
    told = {"layers": one.layers, "methods": one.methods, "references": tuple(one.references)}
    return {**cells, FACTS: facts(provenance=one.provenance, notes=one.notes, **told)}


def gathered(
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
    for one in explanations[1:]:
        shape = (one.layers, one.methods, tuple(one.references))
        if shape != (first.layers, first.methods, tuple(first.references)):
            raise InputError("explanations of one comparison need the same layers, methods and references")
