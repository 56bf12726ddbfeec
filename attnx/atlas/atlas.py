"""The result of `head_atlas`: a number for each text, layer and head, and its means as grids to look at."""

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

Array = np.ndarray[Any, np.dtype[np.float64]]
CARRIED = "carried"
FORMAT = 1


@dataclass(frozen=True)
class HeadScore:
    """One head, and its mean over the texts."""

    layer: int
    head: int
    summary: Summary


@dataclass(frozen=True, eq=False)
class HeadAtlas:
    """Layer × head, by what the heads carry and by their agreement with references. `atlas.best(5)` names the top."""

    method: str
    measure: str
    layers: tuple[int, ...]
    values: Mapping[str, Array]
    """"carried" and each reference → text × layer × head. Carried is raw attention from the explained position to other
    words; agreement is NaN where it is undefined, because a head or the reference is constant."""
    texts: tuple[str, ...]
    seed: int = 0
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, explanations: Sequence[Explanation], *, measure: str = "spearman", seed: int = 0) -> HeadAtlas:
        """Of explanations by raw attention and one method with `head="each"`, and whatever references they carry."""
        agree = MEASURES[measure]
        method = _check(explanations)
        first = explanations[0]
        found: dict[str, list[Array]] = {CARRIED: [], **{name: [] for name in first.references}}
        for one in explanations:
            content = [position.index for position in one.positions if not position.special]
            scores = one[method]
            found[CARRIED].append(one["raw"][..., _others(one, content)].sum(-1))
            for name, reference in one.references.items():
                # A reference with a sign says for or against; attention knows only how much.
                sizes = np.abs(reference[content])
                found[name].append(agree(rankable(scores[..., content], method), sizes))
        return cls(
            method=method,
            measure=measure,
            layers=first.layers,
            values={name: np.stack(grids) for name, grids in found.items()},
            texts=tuple(_name(one) for one in explanations),
            seed=seed,
            provenance=first.provenance,
        )

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
        return sorted(scored, key=lambda one: -(one.summary.mean or 0.0))[:count]

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

    def text(self) -> str:
        """A grid for each of "carried" and the references, the last layer on top, and the best heads of each."""
        from attnx.atlas.layout import text

        return text(self)

    def markdown(self) -> str:
        from attnx.atlas.layout import markdown

        return markdown(self)

    def to_frame(self) -> pandas.DataFrame:
        """A pandas table with one row for each text, layer and head."""
        from attnx.atlas.layout import to_frame

        return to_frame(self)

    def plot(self, ax: Any = None, by: str | None = None) -> Any:
        """The grids as heat maps, one panel each; with `ax` only one, by default "carried". Returns the axes."""
        from attnx.atlas.plot import plot

        return plot(self, ax, by)

    def to_json(self) -> str:
        """Everything, all digits, undefined as null; `HeadAtlas.from_json` reads it."""
        numbers = {name: nulls_for_nan(grid) for name, grid in self.values.items()}
        facts = {"method": self.method, "measure": self.measure, "layers": list(self.layers)}
        rest = {"texts": list(self.texts), "seed": self.seed, "provenance": dict(self.provenance)}
        return json.dumps({"format": FORMAT, **facts, "values": numbers, **rest}, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> HeadAtlas:
        """Read what `to_json` wrote."""
        try:
            data = json.loads(text)
            if data.pop("format") != FORMAT:
                raise FileFormatError(f"not an atlas that this attnx reads: expected format {FORMAT}")
            data |= {name: tuple(data[name]) for name in ("layers", "texts")}
            data["values"] = {name: np.array(grid, dtype=np.float64) for name, grid in data["values"].items()}
            return cls(**data)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, FileFormatError):
                raise
            raise FileFormatError(f"not an atlas that attnx wrote: {error!r}") from error

    def __repr__(self) -> str:
        by = f", {self.measure} with {', '.join(self.references)}" if self.references else ""
        return f"HeadAtlas({self.method}, {len(self.layers)} layers × {self.heads} heads, {len(self.texts)} texts{by})"

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from attnx.render.html.notebook import notebook_html

        return notebook_html(self)


def _others(explanation: Explanation, content: Sequence[int]) -> list[int]:
    """Where attention that is carried comes from: neither the explained position nor the first token of a decoder."""
    causal = explanation.sink is not None or explanation.provenance.get("settings", {}).get("causal", False)
    sinks = {0} if causal else set()
    return [place for place in content if place not in sinks | {explanation.position}]


def _check(explanations: Sequence[Explanation]) -> str:
    if not explanations:
        raise InputError("an atlas needs at least one explanation")
    first = explanations[0]
    method = first.methods[-1]
    for one in explanations:
        if one.methods not in (("raw",), ("raw", method)) or any(scores.ndim != 3 for scores in one.relevance.values()):
            raise InputError("an atlas needs every head: explain(…, methods=('raw', 'rollout'), head='each')")
        if (one.layers, tuple(one.references)) != (first.layers, tuple(first.references)):
            raise InputError("explanations of one atlas need the same layers and references")
    return method


def _name(explanation: Explanation) -> str:
    text = explanation.text
    return "" if text is None else " / ".join(text) if isinstance(text, tuple) else text
