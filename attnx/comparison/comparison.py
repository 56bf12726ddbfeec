"""The result of a comparison: an agreement for each text, method, reference and layer, and its summaries."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from attnx.agreement import Summary, rankable
from attnx.agreement.measures import MEASURES
from attnx.agreement.undefined import nulls_for_nan
from attnx.errors import ChoiceError, FileFormatError, InputError
from attnx.explanation import Explanation
from attnx.registry import unknown

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

Array = np.ndarray[Any, np.dtype[np.float64]]
FORMAT = 1


@dataclass(frozen=True, eq=False)
class Comparison:
    """How far methods agree with references. `c.cell("blankout", "rollout")` is the summary at the last layer."""

    measure: str
    layers: tuple[int, ...]
    values: Mapping[str, Mapping[str, Array]]
    """Reference → method → text × layer, NaN where agreement is undefined: one of the two is constant."""
    ceiling: Mapping[str, Mapping[str, Array]]
    """Reference → other reference → text: how far references agree among themselves."""
    texts: tuple[str, ...]
    seed: int = 0
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, explanations: Sequence[Explanation], *, measure: str = "spearman", seed: int = 0) -> Comparison:
        """Compare what explanations carry: all their methods with all their references."""
        agree = MEASURES[measure]
        _check(explanations)
        first = explanations[0]
        found: dict[str, dict[str, list[Array]]] = {
            reference: {method: [] for method in first.methods} for reference in first.references
        }
        among: dict[str, dict[str, list[Array]]] = {
            reference: {other: [] for other in first.references if other != reference} for reference in first.references
        }
        for one in explanations:
            content = [position.index for position in one.positions if not position.special]
            # A reference with a sign says for or against; attention knows only how much.
            sizes = {name: np.abs(scores[content]) for name, scores in one.references.items()}
            for reference, by_method in found.items():
                for method, rows in by_method.items():
                    layers = np.stack([one.scores(method, layer)[content] for layer in one.layers])
                    rows.append(agree(rankable(layers, method), sizes[reference]))
                for other, values in among[reference].items():
                    values.append(agree(sizes[other], sizes[reference]))
        return cls(
            measure=measure,
            layers=first.layers,
            values=_arrays(found),
            ceiling=_arrays(among),
            texts=tuple(_name(one) for one in explanations),
            seed=seed,
            provenance={**first.provenance, "references": _shared([one.provenance for one in explanations])},
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

    def text(self) -> str:
        """Aligned columns for the terminal, a block for each reference."""
        from attnx.comparison.layout import text

        return text(self)

    def markdown(self) -> str:
        """A Markdown table for each reference, with a heading and a foot."""
        from attnx.comparison.layout import markdown

        return markdown(self)

    def to_frame(self) -> pandas.DataFrame:
        """A pandas table with one row for each text, reference, method and layer; undefined agreement is NaN."""
        from attnx.comparison.layout import to_frame

        return to_frame(self)

    def to_csv(self) -> str:
        """One line for each text, reference, method and layer; undefined agreement is an empty cell."""
        from attnx.comparison.layout import to_csv

        return to_csv(self)

    def plot(self, ax: Axes | None = None, reference: str | None = None) -> Any:
        """Agreement by layer, a line for each method with its 95 % interval: one panel for each reference.

        With `ax` only one `reference` is drawn, by default the first. Returns the axes.
        """
        from attnx.comparison.plot import plot

        return plot(self, ax, reference)

    def to_json(self) -> str:
        """Everything, all digits, undefined as null; `Comparison.from_json` reads it."""
        return json.dumps(
            {
                "format": FORMAT,
                "measure": self.measure,
                "layers": list(self.layers),
                "values": _lists(self.values),
                "ceiling": _lists(self.ceiling),
                "texts": list(self.texts),
                "seed": self.seed,
                "provenance": dict(self.provenance),
            },
            ensure_ascii=False,
            allow_nan=False,
        )

    @classmethod
    def from_json(cls, text: str) -> Comparison:
        """Read what `to_json` wrote."""
        try:
            data = json.loads(text)
            if data.pop("format") != FORMAT:
                raise FileFormatError(f"not a comparison that this attnx reads: expected format {FORMAT}")
            data |= {name: tuple(data[name]) for name in ("layers", "texts")}
            data |= {name: _arrays(data[name]) for name in ("values", "ceiling")}
            return cls(**data)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, FileFormatError):
                raise
            raise FileFormatError(f"not a comparison that attnx wrote: {error!r}") from error

    def __repr__(self) -> str:
        return (
            f"Comparison({len(self.texts)} texts, {self.measure} of {', '.join(self.methods)} with "
            f"{', '.join(self.references)}, {len(self.layers)} layers)"
        )

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from attnx.render.html.notebook import notebook_html

        return notebook_html(self)


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


def _name(explanation: Explanation) -> str:
    text = explanation.text
    return "" if text is None else " / ".join(text) if isinstance(text, tuple) else text


def _arrays(nested: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Array]]:
    return {
        name: {other: np.array(values, dtype=np.float64) for other, values in inner.items()}
        for name, inner in nested.items()
    }


def _lists(nested: Mapping[str, Mapping[str, Array]]) -> dict[str, dict[str, Any]]:
    return {name: {other: nulls_for_nan(values) for other, values in inner.items()} for name, inner in nested.items()}
