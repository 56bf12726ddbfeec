"""How often a method puts most relevance on the right candidate of a pronoun, beside chance and baselines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from attnx.errors import InputError
from attnx.evaluation import EvaluationTable, note_blocks
from attnx.pronouns.result import Probe
from attnx.results import Array, Between, Filled, Rising, Rules
from attnx.results.storage import Among
from attnx.statistics import Summary
from attnx.views import TextBlock

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

QUESTIONS = {"right": "the right referent", "implied": "the candidate that the prediction implies"}
BASELINES = ("nearest candidate", "most word pieces", "commonest pronoun's")
"""What needs no attention: rows with the same number at all layers."""
CHANCE = "chance"

_FOOT = (
    "Shares of decided sentences, with the 95 % interval of a bootstrap over sentences. Candidates that tie to "
    "1e-9 are undecided."
)


def _columns_rule(columns: Sequence[str], result: Any) -> str | None:
    layers, wanted = len(result.whole.layers), result.whole.wanted
    fits = len(columns) == len(QUESTIONS) * layers and len(wanted) == len(QUESTIONS)
    return None if fits else f"{layers} for each of {len(QUESTIONS)} questions"


def _wanted_rule(names: Sequence[str | None], result: Any) -> str | None:
    return None if len(names) == result.whole.count else f"one for each of {result.whole.count} sentences"


@dataclass(frozen=True, eq=False, kw_only=True)
class PronounReport(EvaluationTable):
    """Whether the candidate with most relevance is the wanted one: 1, 0, or NaN where candidates tie.

    `report.cell("flow", "right 6")` is the share of sentences in which flow at layer 6 has most on the right referent,
    `report.cell("flow", "implied 6")` that in which it has most on the candidate that the prediction implies.
    """

    kind: ClassVar[str] = "pronoun report"
    rules: ClassVar[Rules] = {
        **EvaluationTable.rules,
        "values": Filled(named=(CHANCE, *BASELINES)),
        "columns": _columns_rule,
        "wanted.*": _wanted_rule,
        "layers": Rising(),
        "with_layers.*": Among("values"),
        "mass": Between(0),
    }

    layers: tuple[int, ...]
    with_layers: tuple[str, ...]
    """The methods with a number for each layer; all other rows have one for all of them."""
    wanted: Mapping[str, tuple[str | None, ...]]
    """Question → the wanted candidate of each sentence; None where the question does not apply."""
    source: str
    predicted: Mapping[str, int]
    """Pronoun → the number of sentences in which it is the likelier one."""
    mass: float
    """The probability that all pronouns have together, on average."""
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        answers: Sequence[str | None],
        probes: Sequence[Probe],
        *,
        source: str,
        seed: int = 0,
        provenance: Mapping[str, Any] | None = None,
    ) -> PronounReport:
        """Of the probes of many sentences, and the right referent of each; None where there is none."""
        layers, first = len(probes[0].layers), probes[0]
        wanted = {"right": tuple(answers), "implied": tuple(probe.implied for probe in probes)}
        choices = {name: [probe.top_candidates(name) for probe in probes] for name in first.methods}
        for name in first.references:
            choices[name] = [probe.top_candidates(name) if name in probe.references else (None,) for probe in probes]
        choices[BASELINES[0]] = [(probe.nearest,) for probe in probes]
        choices[BASELINES[1]] = [(_longest(probe),) for probe in probes]
        values = {
            name: np.hstack([_hits(rows, names, layers) for names in wanted.values()]) for name, rows in choices.items()
        }
        commonest = [_hits([(name,) for name in _commonest(probes, names)], names, layers) for names in wanted.values()]
        chance = np.array([[1 / len(probe.candidates)] for probe in probes])
        counts = Counter(probe.predicted for probe in probes if probe.predicted is not None)
        columns = tuple(f"{question} {layer}" for question in wanted for layer in first.layers)
        return cls(
            values={**values, BASELINES[2]: np.hstack(commonest), CHANCE: chance.repeat(len(columns), axis=1)},
            columns=columns,
            baseline=CHANCE,
            layers=first.layers,
            with_layers=first.methods,
            wanted=wanted,
            source=source,
            predicted=dict(counts.most_common()),
            mass=float(np.mean([sum(probe.probabilities.values()) for probe in probes])),
            seed=seed,
            notes=dict(Counter(note for probe in probes for note in probe.notes).most_common()),
            provenance=provenance or {},
        )

    @property
    def references(self) -> tuple[str, ...]:
        """The rows without layers that know the prediction."""
        return tuple(name for name in self.methods if name not in (*self.with_layers, *BASELINES))

    @property
    def prediction(self) -> Summary:
        """How often the prediction itself implies the right referent; undefined where one of the two is not known."""
        pairs = zip(*self.wanted.values(), strict=True)
        agrees = [np.nan if None in pair else float(pair[0] == pair[1]) for pair in pairs]
        return Summary.of(np.array(agrees, dtype=np.float64), seed=self.seed)

    def cell(self, method: str, column: str | None = None) -> Summary:
        """The share of the sentences to which the question applies and in which no candidates tie."""
        key = method, self._column(column)
        if key not in self._cells:
            applies = self._applies(self.columns.index(key[1]) // len(self.layers))
            self._cells[key] = Summary.of(self.array(*key)[applies], seed=self.seed)
        return self._cells[key]

    def applicable(self, question: str) -> int:
        """How many have a wanted candidate: `report.applicable("right")`."""
        return int(self._applies(list(QUESTIONS).index(question)).sum())

    def by_layer(self, method: str, question: str) -> tuple[Summary, ...]:
        """The cells of a method, from the layer closest to the input."""
        start = list(QUESTIONS).index(question) * len(self.layers)
        return tuple(self.cell(method, column) for column in self.columns[start : start + len(self.layers)])

    def blocks(self) -> list[TextBlock]:
        """What was predicted, and a table for each question that applies to the data."""
        names = dict.fromkeys(str(self.provenance[key]) for key in ("model", "class") if key in self.provenance)
        title = ", ".join([f"Pronouns: {self.count:,} sentences of {self.source}", *names])
        blocks = [TextBlock(title, lead=(self._predictions(),))]
        for question, text in QUESTIONS.items():
            count = self.applicable(question)
            rest = f", {self.count - count:,} left out" if count < self.count else ""
            heading = f"Most relevance on {text} ({count:,} sentences{rest})"
            if count:
                blocks.append(TextBlock(heading, lines=list(self._lines(question))))
            else:
                blocks.append(TextBlock(heading, lead=("Does not apply: no sentence says which one that is.",)))
        return [*blocks, TextBlock(foot=(_FOOT,)), *note_blocks(self.notes, self.count)]

    def rows(self) -> list[dict[str, Any]]:
        """A record for each question, method and layer; a reference and a baseline have no layer."""
        return [
            {"wanted": text, "method": name, "layer": layer if name in self.with_layers else None, **vars(cell)}
            for question, text in QUESTIONS.items()
            for name in self.values
            for layer, cell in zip(self.layers, self.by_layer(name, question), strict=True)
            if name in self.with_layers or layer == self.layers[0]
        ]

    def draw(self, ax: Any = None) -> Figure:
        """A column of panels for each question that applies: the rates over the layers, beside chance and baselines."""
        from matplotlib.figure import Figure

        questions = [question for question in QUESTIONS if self.applicable(question)]
        if not questions:
            raise InputError("there is nothing to draw: no sentence has an answer, or says what its pronouns imply")
        cells = [cell for question in questions for name in self.with_layers for cell in self.by_layer(name, question)]
        ties = any(cell.undefined for cell in cells)
        heights = (3.4, 1.0) if ties else (3.4,)
        figure = Figure(figsize=(5.2 * len(questions) + 0.4, 0.8 + sum(heights)), layout="constrained")
        panels = figure.subplots(len(heights), len(questions), height_ratios=heights, sharex=True, squeeze=False)
        for column, question in enumerate(questions):
            self._draw_shares(panels[0, column], question)
            title = f"most relevance on {QUESTIONS[question]}\n{self.applicable(question):,} sentences"
            panels[0, column].set_title(title, fontsize=10)
            if ties:
                self._draw_undecided(panels[1, column], question)
            panels[-1, column].set_xlabel("layer", fontsize=9)
        for axes, label in zip(panels[:, 0], ("% of decided sentences", "% undecided"), strict=False):
            axes.set_ylabel(label, fontsize=9)
        legend = dict(zip(*reversed(panels[0, -1].get_legend_handles_labels()), strict=True))
        figure.legend(legend.values(), legend, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
        return figure

    def _applies(self, number: int) -> Any:
        return np.array([name is not None for name in list(self.wanted.values())[number]], dtype=bool)

    def _predictions(self) -> str:
        counts = ", ".join(f"{pronoun} {count:,}" for pronoun, count in self.predicted.items())
        prediction = self.prediction
        right = f" The prediction implies the right referent in {_share(prediction)}." if prediction.count else ""
        return f"Predicted: {counts}. The pronouns have {self.mass:.1%} of the probability on average.{right}"

    def _lines(self, question: str) -> Iterator[list[str]]:
        """The cells of the printed table, the head first; a column of ties for a method that has any."""
        methods = {name: self.by_layer(name, question) for name in self.with_layers}
        tied = [name for name, cells in methods.items() if any(cell.undefined for cell in cells)]
        columns = [column for name in methods for column in ([name, "undecided"] if name in tied else [name])]
        yield ["layer", *columns]
        for row, layer in enumerate(self.layers):
            line = [str(layer)]
            for name, cells in methods.items():
                line += [_share(cells[row]), *([str(cells[row].undefined)] if name in tied else [])]
            yield line
        rest = [""] * (len(columns) - 1)
        for name in (*self.references, CHANCE, *BASELINES):
            cell = self.by_layer(name, question)[0]
            if name == CHANCE:
                yield [name, f"{cell.mean:.1%}", *rest]
            elif cell.mean is not None:
                yield [name, _share(cell) + (f", {cell.undefined:,} undecided" if cell.undefined else ""), *rest]

    def _draw_shares(self, axes: Axes, question: str) -> None:
        for number, name in enumerate(self.with_layers):
            cells = self.by_layer(name, question)
            means, lows, highs = (_percent([getattr(cell, key) for cell in cells]) for key in ("mean", "low", "high"))
            color = _COLORS[number % len(_COLORS)]
            axes.errorbar(
                np.array(self.layers)
                + 0.12 * (number - (len(self.with_layers) - 1) / 2),  # intervals next to each other
                means,
                yerr=np.maximum(np.stack([means - lows, highs - means]), 0),  # a bound may round beyond the mean
                color=color,
                marker=_MARKERS[number % len(_MARKERS)],
                markersize=5,
                linewidth=1.5,
                elinewidth=1,
                label=name,
            )
        looks = {CHANCE: ("black", 1.0, "--"), BASELINES[0]: ("black", 1.0, ":"), BASELINES[2]: ("black", 1.0, "-.")}
        for number, name in enumerate(self.references, start=len(self.with_layers)):
            looks[name] = (_COLORS[number % len(_COLORS)], 2.0, "-")
        for name, (color, width, style) in looks.items():
            mean = self.by_layer(name, question)[0].mean
            if mean is not None:
                label = f"{name} (of no layer)" if name in self.references else name
                axes.axhline(100 * mean, color=color, linewidth=width, linestyle=style, label=label)
        axes.set_ylim(-2, 102)
        self._plain(axes)

    def _draw_undecided(self, axes: Axes, question: str) -> None:
        width = 0.8 / len(self.with_layers)
        for number, name in enumerate(self.with_layers):
            left = np.array(self.layers) + width * (number - (len(self.with_layers) - 1) / 2)
            shares = [100 * cell.undefined / self.applicable(question) for cell in self.by_layer(name, question)]
            axes.bar(left, shares, width=width, color=_COLORS[number % len(_COLORS)])
        axes.set_ylim(0, 100)
        self._plain(axes)

    def _plain(self, axes: Axes) -> None:
        axes.set_xticks(self.layers)
        axes.tick_params(labelsize=8)
        axes.grid(axis="y", alpha=0.3)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)


_COLORS = ("#999999", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
"""One for each method, in their order, that color-blind readers can tell apart (Okabe & Ito)."""
_MARKERS = "osD^vP*"


def _hits(choices: Sequence[Sequence[str | None]], wanted: Sequence[str | None], layers: int) -> Array:
    """sentences × layers: whether the choice is the wanted candidate; NaN where one of the two is None."""
    rows = [
        [np.nan if None in (choice, name) else float(choice == name) for choice in row]
        for row, name in zip(choices, wanted, strict=True)
    ]
    return np.array([row * layers if len(row) == 1 else row for row in rows], dtype=np.float64)


def _longest(probe: Probe) -> str | None:
    """The candidate of the most positions, which a sum over positions favors; None where two have as many."""
    lengths = [len(candidate.positions) for candidate in probe.candidates]
    longest = [candidate.name for candidate in probe.candidates if len(candidate.positions) == max(lengths)]
    return longest[0] if len(longest) == 1 else None


def _commonest(probes: Sequence[Probe], wanted: Sequence[str | None]) -> list[str | None]:
    """Each sentence's candidate of the pronoun that is predicted most often: that is right without any attention.

    Forms of a pronoun (he, his, him) go together by their index in a sentence's list.
    """
    numbers = Counter(
        list(probe.probabilities).index(probe.predicted)
        for probe, name in zip(probes, wanted, strict=True)
        if name is not None and probe.predicted is not None
    )
    if not numbers:
        return [None] * len(probes)
    commonest = numbers.most_common(1)[0][0]
    pronouns = [list(probe.probabilities)[commonest : commonest + 1] for probe in probes]
    return [probe.implies.get(*pronoun) if pronoun else None for probe, pronoun in zip(probes, pronouns, strict=True)]


def _share(cell: Summary) -> str:
    if cell.mean is None or cell.low is None or cell.high is None:
        return "–"
    return f"{cell.mean:.1%} ({100 * cell.low:.1f} to {100 * cell.high:.1f})"


def _percent(values: list[float | None]) -> Array:
    """NaN where there is no number, which leaves a gap in the line."""
    return np.array([np.nan if value is None else 100 * value for value in values], dtype=np.float64)
