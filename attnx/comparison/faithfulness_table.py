"""The result of a faithfulness measurement: four numbers for each explainer, beside chance."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from attnx.agreement import Summary
from attnx.errors import AttnxError, ChoiceError, FileFormatError
from attnx.registry import unknown
from attnx.render.columns import aligned, decimals, piped

if TYPE_CHECKING:
    import pandas

Array = np.ndarray[Any, np.dtype[np.float64]]

RANDOM = "random"
METRICS = ("comprehensiveness", "sufficiency", "deletion", "insertion")
MORE_IS_BETTER = {"comprehensiveness": True, "sufficiency": False, "deletion": False, "insertion": True}
Verdict: TypeAlias = Literal["better than chance", "worse than chance", "not told apart from chance"]
MARKS: Mapping[Verdict, str] = {
    "better than chance": "+",
    "worse than chance": "−",
    "not told apart from chance": "",
}
FORMAT = 1
FEWEST_TEXTS = 6
"""Of five texts all fall on one side by chance in 1 of 16 cases: too often for an interval of 95 %."""


@dataclass(frozen=True, eq=False)
class Faithfulness:
    """How faithful explainers are. `f.verdict("rollout", "comprehensiveness")` says whether it beats chance."""

    layer: int
    score: str
    values: Mapping[str, Array]
    """Explainer (and `random`) → text × metric, in the order of `METRICS`."""
    deletion: Mapping[str, Array]
    """Explainer → the mean score with 0 %, 10 %, … 100 % of the positions blanked, the most relevant first."""
    insertion: Mapping[str, Array]
    """Explainer → the mean score with only 0 %, 10 %, … 100 % of the positions left."""
    orders: int
    """Random orders for each text."""
    seed: int = 0
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def explainers(self) -> tuple[str, ...]:
        return tuple(name for name in self.values if name != RANDOM)

    def cell(self, explainer: str, metric: str) -> Summary:
        """Mean and 95 % interval over the texts."""
        return Summary.of(self._column(explainer, metric), seed=self.seed)

    def beyond_chance(self, explainer: str, metric: str) -> Summary:
        """By how much an explainer differs from random orders of the same texts: paired, with its 95 % interval."""
        return Summary.of(self._column(explainer, metric) - self._column(RANDOM, metric), seed=self.seed)

    def verdict(self, explainer: str, metric: str) -> Verdict:
        """Whether the interval of the difference to chance leaves zero out; fewer than six texts cannot tell."""
        difference = self.beyond_chance(explainer, metric)
        if difference.count < FEWEST_TEXTS:
            return "not told apart from chance"
        if difference.low is None or difference.high is None or difference.low <= 0 <= difference.high:
            return "not told apart from chance"
        more = difference.low > 0
        return "better than chance" if more == MORE_IS_BETTER[metric] else "worse than chance"

    def text(self) -> str:
        """Aligned columns for the terminal."""
        return "\n".join([self.heading(), "", aligned(list(self._lines())), "", self.foot()])

    def markdown(self) -> str:
        return "\n".join([f"**{self.heading()}**", "", piped(list(self._lines())), "", self.foot()])

    def to_json(self) -> str:
        """Everything, all digits; `Faithfulness.from_json` reads it."""
        lists = {
            name: {key: array.tolist() for key, array in getattr(self, name).items()}
            for name in ("values", "deletion", "insertion")
        }
        plain = {"layer": self.layer, "score": self.score, "orders": self.orders, "seed": self.seed}
        return json.dumps({"format": FORMAT, **plain, **lists, "provenance": dict(self.provenance)}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Faithfulness:
        """Read what `to_json` wrote."""
        try:
            data = json.loads(text)
            if data.pop("format") != FORMAT:
                raise FileFormatError(f"not a faithfulness table that this attnx reads: expected format {FORMAT}")
            for name in ("values", "deletion", "insertion"):
                data[name] = {key: np.array(values, dtype=np.float64) for key, values in data[name].items()}
            return cls(**data)
        except FileFormatError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise FileFormatError(f"not a faithfulness table that attnx wrote: {error!r}") from error

    def to_frame(self) -> pandas.DataFrame:
        """A pandas table with one row for each text and explainer, chance included."""
        try:
            import pandas
        except ImportError as error:
            raise AttnxError("to_frame needs pandas: pip install pandas") from error
        return pandas.DataFrame(
            [
                {"text": number, "explainer": name, **dict(zip(METRICS, row, strict=True))}
                for name, values in self.values.items()
                for number, row in enumerate(values.tolist())
            ]
        )

    def to_csv(self) -> str:
        """One line for each text and explainer, chance included."""
        lines = [
            ",".join([str(number), name, *map(repr, row)])
            for name, values in self.values.items()
            for number, row in enumerate(values.tolist())
        ]
        return "\n".join([",".join(("text", "explainer", *METRICS)), *lines]) + "\n"

    def plot(self, axes: Any = None) -> Any:
        """The deletion and the insertion curve of every explainer, chance dashed. Takes and returns two axes."""
        from attnx.comparison.faithfulness_plot import plot

        return plot(self, axes)

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from attnx.render.html.notebook import notebook_html

        return notebook_html(self)

    def __repr__(self) -> str:
        texts = len(self.values[RANDOM])
        return f"Faithfulness({texts} texts, {', '.join(self.explainers)} at layer {self.layer})"

    def _column(self, explainer: str, metric: str) -> Array:
        if explainer not in self.values:
            raise ChoiceError(unknown("explainer", explainer, self.values))
        if metric not in METRICS:
            raise ChoiceError(unknown("metric", metric, METRICS))
        column: Array = self.values[explainer][:, METRICS.index(metric)]
        return column

    def heading(self) -> str:
        """What was measured, in a line."""
        texts = len(self.values[RANDOM])
        return f"Faithfulness at layer {self.layer}: {self.score} of the target, {texts} text{'s' * (texts > 1)}"

    def _lines(self) -> Iterator[list[str]]:
        arrows = {name: "↑" if more else "↓" for name, more in MORE_IS_BETTER.items()}
        yield ["", *(f"{name} {arrows[name]}" for name in METRICS)]
        for name in self.explainers:
            marks = {one: MARKS[self.verdict(name, one)] for one in METRICS}
            yield [name, *(f"{decimals(self.cell(name, one).mean)} {mark}".rstrip() for one, mark in marks.items())]
        yield [RANDOM, *(decimals(self.cell(RANDOM, one).mean) for one in METRICS)]

    def foot(self) -> str:
        """How to read the marks."""
        if len(self.values[RANDOM]) < FEWEST_TEXTS:
            return f"Fewer than {FEWEST_TEXTS} texts cannot be told apart from chance; give more."
        return (
            f"+ better, − worse than {self.orders} random orders of each text: the 95 % interval of the paired "
            "difference leaves 0 out."
        )
