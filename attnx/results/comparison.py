"""The result of a comparison: an agreement for each text, method, reference and layer, and its summaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from attnx.agreement.by_sign import agree
from attnx.agreement.measures import MEASURES
from attnx.agreement.summary import Summary
from attnx.agreement.ties import told_apart
from attnx.errors import ChoiceError, InputError
from attnx.forks import cached_property
from attnx.registry import unknown
from attnx.results.explanation import Explanation
from attnx.results.fit import PROVENANCE, Alike, Between, Filled, NamedAs, Rising, Rules, Shape
from attnx.results.noted import counted
from attnx.results.result import Array, TableResult
from attnx.results.schema import LATER

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
        "values": Alike(),
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
    """Reference → other reference → text: how far references agree among themselves, by size,
    as methods without a sign do with them."""
    texts: tuple[str, ...]
    seed: int = 0
    provenance: Mapping[str, Any] = field(default_factory=dict)
    notes: Mapping[str, int] = field(default_factory=dict, metadata=LATER)
    """What should be known of how texts were read and explained, such as that they were cut, and of how many."""

    @classmethod
    def of(cls, explanations: Sequence[Explanation], *, measure: str = "spearman", seed: int = 0) -> Comparison:
        """Compare what explanations carry: all their methods with all their references."""
        by = MEASURES[measure]
        _check(explanations)
        first = explanations[0]
        found: dict[str, dict[str, list[Array]]] = {
            reference: {method: [] for method in first.methods} for reference in first.references
        }
        among: dict[str, dict[str, list[Array]]] = {
            reference: {other: [] for other in first.references if other != reference} for reference in first.references
        }
        for one in explanations:
            content = one.content
            measured = {name: told_apart(scores[content]) for name, scores in one.references.items()}
            for reference, by_method in found.items():
                for method, rows in by_method.items():
                    layers = np.stack([one.scores(method, layer)[content] for layer in one.layers])
                    own, both = told_apart(layers, one.digits.get(method)), {method, reference} <= one.signed
                    rows.append(agree(by, own, measured[reference], both_signed=both))
                for other, values in among[reference].items():
                    values.append(agree(by, measured[other], measured[reference], both_signed=False))
        return cls(
            measure=measure,
            layers=first.layers,
            values=_arrays(found),
            ceiling=_arrays(among),
            texts=tuple(one.title for one in explanations),
            seed=seed,
            provenance={**first.provenance, "references": _shared([one.provenance for one in explanations])},
            notes=counted(explanations),
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


def _shared(provenances: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The settings of the references that are the same for every text."""
    first, *others = (one.get("references", {}) for one in provenances)
    return {
        name: {key: value for key, value in facts.items() if all(one[name].get(key) == value for one in others)}
        for name, facts in first.items()
    }


def _arrays(nested: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Array]]:
    return {
        name: {other: np.array(values, dtype=np.float64) for other, values in inner.items()}
        for name, inner in nested.items()
    }
