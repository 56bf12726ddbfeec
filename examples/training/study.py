"""Tables 1 and 2 and the subject check over many trainings: how much of a number is the method, how much the training?

python -m examples.training.study table1 --models plain-0 plain-1 paper-0 --samples 500 --plot trainings.png
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeAlias, TypeVar

import numpy as np
from torch import nn

from attnx.demo_models import demo_directory
from attnx.demo_models.verb_number import read_note
from attnx.errors import AttnxError, ChoiceError, InputError
from attnx.methods import METHODS, PAPER_METHODS
from attnx.paper import PROTOCOLS, Sentences, save_picture, table1, table2
from attnx.paper import sentences as paper_sentences
from attnx.paper.subject import PARTS, SubjectTable, subject
from attnx.paper.table import MeanDeviation, PaperTable, Protocol
from attnx.registry import unknown
from attnx.statistics import Summary
from attnx.views import LOOKS, TextBlock, as_csv, as_markdown, as_text, decimals
from examples.training.verb_number import load_trained

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEWEST = 3
"""Models from which on an interval is computed: of two, Student's t has twelve deviations to either side."""

Place: TypeAlias = Literal["within", "above", "below"]

_LEVEL = 0.975
_ROUNDED = 0.005
"""Half of the last digit that the paper prints."""


@dataclass(frozen=True)
class Spread:
    """Mean and deviation over models.

    >>> Spread.of([0.4, 0.5, 0.6]).mean
    0.5
    """

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float | None]) -> Spread:
        """Models without a number are left out."""
        return cls(tuple(float(value) for value in values if value is not None))

    @property
    def mean(self) -> float | None:
        return float(np.mean(self.values)) if self.values else None

    @property
    def deviation(self) -> float | None:
        """Of the sample, n − 1 beneath: what is asked is how trainings differ, not how these do. None of one model."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the mean over all trainings, by Student's t; None of fewer than three."""
        return self._around((1 / len(self.values)) ** 0.5) if len(self.values) >= FEWEST else None

    @property
    def expected(self) -> tuple[float, float] | None:
        """Where one more training would come out: the 95 % prediction interval by Student's t.

        Of two models it is merely their range, and of one there is none.
        """
        if len(self.values) >= FEWEST:
            return self._around((1 + 1 / len(self.values)) ** 0.5)
        return (min(self.values), max(self.values)) if len(self.values) > 1 else None

    def place(self, published: float) -> Place | None:
        """Where a number that was printed with two digits lies beside what is expected."""
        if self.expected is None:
            return None
        low, high = self.expected
        return "above" if published > high + _ROUNDED else "below" if published < low - _ROUNDED else "within"

    def _around(self, factor: float) -> tuple[float, float]:
        from scipy.special import stdtrit  # takes longer to load than most tables to show

        mean, deviation = self.mean or 0.0, self.deviation or 0.0
        half = float(stdtrit(len(self.values) - 1, _LEVEL)) * deviation * factor
        return mean - half, mean + half


UNNAMED, ALL = "no named recipe", "all recipes"


@dataclass(frozen=True)
class PaperClaim:
    """A sentence of the paper as a number of one model: the claim holds in it where that is above 0."""

    name: str
    says: str
    margin: Callable[[PaperTable, Protocol], float | None]
    """What is averaged over models."""
    weakest: Callable[[PaperTable, Protocol], float | None]
    """What decides whether it holds in one of them."""


def _gaps(table: PaperTable, protocol: Protocol, above: str, below: str, layers: slice) -> list[float]:
    if not {above, below} <= set(table.methods):
        return []
    high, low = ([cell.mean for cell in table.by_layer(name, protocol)[layers]] for name in (above, below))
    return [a - b for a, b in zip(high, low, strict=True) if a is not None and b is not None]


def _over(combine: Callable[[list[float]], Any], above: str, below: str, layers: slice) -> Callable[..., Any]:
    def read(table: PaperTable, protocol: Protocol) -> float | None:
        gaps = _gaps(table, protocol, above, below, layers)
        return float(combine(gaps)) if gaps else None

    return read


_LAST, _UPPER = slice(-1, None), slice(1, None)
CLAIMS = (
    PaperClaim(
        "flow above rollout",
        "at the last layer flow agrees better than rollout",
        margin=_over(np.mean, "flow", "rollout", _LAST),
        weakest=_over(min, "flow", "rollout", _LAST),
    ),
    PaperClaim(
        "raw fails above layer 1",
        "at every layer above the first, raw attention agrees less than rollout",
        margin=_over(np.mean, "rollout", "raw", _UPPER),
        weakest=_over(min, "rollout", "raw", _UPPER),
    ),
)

AnyTable = TypeVar("AnyTable", PaperTable, SubjectTable)


@dataclass(frozen=True, eq=False)
class Study(Generic[AnyTable]):
    """What both kinds share. `tables[name]` is the table of one model."""

    kind: ClassVar[type[PaperTable] | type[SubjectTable]]

    tables: Mapping[str, AnyTable]
    recipes: Mapping[str, str]
    """Model → the recipe that it was trained by; models of one recipe are trainings of the same thing."""
    same_sentences: bool = True
    """Whether all models were measured on the same sentences."""

    def __post_init__(self) -> None:
        check_alike(self.tables)

    @property
    def by_recipe(self) -> dict[str, tuple[str, ...]]:
        """Recipe → its models, in the order in which they came."""
        return {
            recipe: tuple(name for name in self.tables if self.recipes[name] == recipe)
            for recipe in dict.fromkeys(self.recipes[name] for name in self.tables)
        }

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """The recipes, and where they are several, all of them together."""
        several = len(self.by_recipe) > 1
        return {**self.by_recipe, **({ALL: tuple(self.tables)} if several else {})}

    @classmethod
    def merge(cls, parts: Sequence[Self]) -> Self:
        """One table of the models of all parts; the same model in two of them is an error."""
        names = [name for part in parts for name in part.tables]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice or not parts:
            raise InputError(f"{', '.join(twice)} is in two of the parts" if twice else "no part to merge")
        tables = [table for part in parts for table in part.tables.values()]
        sources = {table.source for table in tables}
        return cls(
            {name: table for part in parts for name, table in part.tables.items()},
            {name: recipe for part in parts for name, recipe in part.recipes.items()},
            same_sentences=len(sources) == 1 and all(part.same_sentences for part in parts),
        )

    def to_json(self) -> str:
        tables = {name: table.to_dict() for name, table in self.tables.items()}
        return json.dumps({"tables": tables, "recipes": self.recipes, "same_sentences": self.same_sentences}, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Self:
        document = json.loads(text)
        tables: Any = {name: cls.kind.from_dict(table) for name, table in document["tables"].items()}
        return cls(tables, document["recipes"], document["same_sentences"])

    def to_text(self) -> str:
        return as_text(self.blocks())

    def to_markdown(self) -> str:
        return as_markdown(self.blocks())

    def to_csv(self) -> str:
        return as_csv(self.rows())

    def blocks(self) -> Iterable[TextBlock]:
        raise NotImplementedError

    def rows(self) -> list[dict[str, Any]]:
        raise NotImplementedError

    def plot(self) -> Figure:
        raise NotImplementedError

    def _recipe(self, recipe: str) -> tuple[str, ...]:
        if recipe not in self.groups:
            raise ChoiceError(unknown("recipe", recipe, tuple(self.groups)))
        return self.groups[recipe]


def check_alike(tables: Mapping[str, PaperTable | SubjectTable]) -> None:
    """That there are tables, and that they have the same rows and columns."""
    shapes = {_shape(table): name for name, table in tables.items()}
    if len(shapes) != 1:
        told = "; ".join(f"{name} has {shape}" for shape, name in shapes.items())
        raise InputError(f"a table over models is of one kind and shape: {told or 'there is no model'}")


def _shape(table: PaperTable | SubjectTable) -> str:
    """What the tables of all models have in common."""
    if isinstance(table, SubjectTable):
        return f"subject at layer {table.layer}"
    protocols = ", ".join(protocol.name for protocol in table.protocols)
    return f"{table.title}, {protocols} ({', '.join(table.methods)} at {table.layers} layers)"


@dataclass(frozen=True, eq=False)
class Trainings(Study[PaperTable]):
    """A table of the paper over many models."""

    kind: ClassVar[type[PaperTable]] = PaperTable
    tables: Mapping[str, PaperTable]

    def blocks(self) -> Iterable[TextBlock]:
        return trainings_blocks(self)

    def rows(self) -> list[dict[str, Any]]:
        return trainings_rows(self)

    def plot(self) -> Figure:
        return plot_trainings(self)

    @property
    def protocols(self) -> tuple[Protocol, ...]:
        return self._first.protocols

    @property
    def methods(self) -> tuple[str, ...]:
        return self._first.methods

    @property
    def layers(self) -> int:
        return self._first.layers

    def published(self, method: str) -> list[MeanDeviation | None]:
        """What the paper prints, layer by layer; None where it prints nothing."""
        return self._first.published_by_layer(method)

    def cell(self, recipe: str, protocol: str, method: str, layer: int) -> Spread:
        """The means of the recipe's models, layers from 1."""
        return Spread.of([cells[layer - 1].mean for cells in self.measured(recipe, protocol, method).values()])

    def between_sentences(self, recipe: str, protocol: str, method: str, layer: int) -> float | None:
        """The deviation over sentences within a model, averaged over the recipe's models."""
        cells = self.measured(recipe, protocol, method).values()
        return Spread.of([by_layer[layer - 1].deviation for by_layer in cells]).mean

    def claim(self, claim: PaperClaim, recipe: str, protocol: str) -> tuple[Spread, int]:
        """Its margin over the recipe's models, and in how many of them it holds."""
        tables, rules = [self.tables[name] for name in self._recipe(recipe)], self._protocol(protocol)
        weakest = [claim.weakest(table, rules) for table in tables]
        margins = [claim.margin(table, rules) for table in tables]
        return Spread.of(margins), sum(value is not None and value > 0 for value in weakest)

    def luck(self, recipe: str, protocol: str) -> float | None:
        """How much a training moves a number: the deviation between models, averaged over the paper's cells."""
        cells = [
            self.cell(recipe, protocol, method, layer).deviation
            for method in self._first.published
            for layer in range(1, self.layers + 1)
        ]
        return Spread.of(cells).mean

    def measured(self, recipe: str, protocol: str, method: str) -> dict[str, tuple[Summary, ...]]:
        """Model → the cells of a method under a protocol, by layer."""
        rules = self._protocol(protocol)
        return {name: self.tables[name].by_layer(method, rules) for name in self._recipe(recipe)}

    def _protocol(self, name: str) -> Protocol:
        return next(protocol for protocol in self.protocols if protocol.name == name)

    @property
    def _first(self) -> PaperTable:
        return next(iter(self.tables.values()))


@dataclass(frozen=True, eq=False)
class SubjectTrainings(Study[SubjectTable]):
    """The shares of the subject check over many models."""

    kind: ClassVar[type[SubjectTable]] = SubjectTable
    tables: Mapping[str, SubjectTable]

    def blocks(self) -> Iterable[TextBlock]:
        return subject_trainings_blocks(self)

    def rows(self) -> list[dict[str, Any]]:
        return subject_trainings_rows(self)

    def plot(self) -> Figure:
        return plot_subject_trainings(self)

    def shares(self, recipe: str) -> dict[tuple[str, str], dict[str, dict[str, Summary]]]:
        """(predictions, measure) → model → part → its share of the relevance."""
        shares: dict[tuple[str, str], dict[str, dict[str, Summary]]] = {}
        for name in self._recipe(recipe):
            table = self.tables[name]
            for kind in table.predictions:
                for measure in table.methods:
                    parts = {part: table.share(measure, part, kind) for part in PARTS}
                    shares.setdefault((kind, measure), {})[name] = parts
        return dict(sorted(shares.items(), key=lambda item: item[0][0]))


@dataclass(frozen=True, eq=False)
class Trained:
    """A model of the table, and the sentences that it is measured on."""

    name: str
    recipe: str
    model: nn.Module
    tokenizer: Any
    sentences: Sentences


def over_trainings(measure: Callable[..., PaperTable], models: Iterable[Trained], **options: Any) -> Trainings:
    """The table that `measure` (`table1`, `table2`) makes of each model, with its options. One model is held at a time
    where they come one by one."""
    return Trainings(*_measured(measure, models, options))


def subject_over_trainings(models: Iterable[Trained], **options: Any) -> SubjectTrainings:
    """The subject check of each model."""
    return SubjectTrainings(*_measured(subject, models, options))


def _measured(
    measure: Callable[..., Any], models: Iterable[Trained], options: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, str], bool]:
    methods = (*PAPER_METHODS, *(name for name in METHODS.names() if METHODS[name].target_specific))
    tables: dict[str, Any] = {}
    recipes: dict[str, str] = {}
    met: set[tuple[str, ...]] = set()
    for model in models:
        if model.name in tables:
            raise InputError(f"two models are called {model.name}; rename the folder of one")
        settings = dict(options)
        if options.get("run_dir") is not None:
            settings["run_dir"] = f"{options['run_dir']}/{model.name}"
        tables[model.name] = measure(model.model, model.tokenizer, model.sentences, methods=methods, **settings)
        check_alike(tables)
        recipes[model.name] = model.recipe
        met.add(tuple(beginning.text for beginning in model.sentences.beginnings))
    return tables, recipes, len(met) == 1


_PARTS = ("subject", "attractors", "subject first")
_PANEL = (2.6, 2.6)
"""Inches of a panel."""


def trainings_blocks(trainings: Trainings) -> Iterator[TextBlock]:
    """One for each protocol and recipe, then the claims under each protocol."""
    first = next(iter(trainings.tables.values()))
    for protocol in trainings.protocols:
        about = f"{first.title}, {first.reference}, protocol {protocol.name}"
        for recipe, models in trainings.groups.items():
            yield TextBlock(
                heading=f"{about}, {_of(recipe)}: {_count(models)}, {first.count:,} sentences of {first.source}",
                lead=_right(trainings, models),
                lines=list(_lines(trainings, recipe, protocol.name)),
                foot=_foot(len(models), trainings.same_sentences),
            )
        yield TextBlock(
            heading=f"{about}: which claims hold in which training",
            lines=list(_claim_lines(trainings, protocol.name)),
            foot=(
                *(f"{claim.name}: {claim.says}." for claim in CLAIMS),
                "± training is the deviation between models, averaged over the paper's cells.",
            ),
        )


def trainings_rows(trainings: Trainings) -> list[dict[str, Any]]:
    """A row for each model, protocol, method and layer."""
    return [
        {
            "recipe": recipe,
            "model": model,
            "protocol": protocol.name,
            "method": method,
            "layer": layer,
            "published": None if known is None else known[0],
            **vars(cell),
        }
        for recipe in trainings.by_recipe
        for protocol in trainings.protocols
        for method in trainings.methods
        for model, cells in trainings.measured(recipe, protocol.name, method).items()
        for layer, (known, cell) in enumerate(zip(trainings.published(method), cells, strict=True), 1)
    ]


def plot_trainings(trainings: Trainings) -> Figure:
    """A row for each protocol, a panel for each method: a dot for each model at each layer, the paper's as a line."""
    from matplotlib.figure import Figure

    protocols, methods, recipes = trainings.protocols, trainings.methods, trainings.by_recipe
    width, height = _PANEL
    figure = Figure(figsize=(width * len(methods), height * len(protocols) + 0.6), layout="constrained")
    panels = figure.subplots(len(protocols), len(methods), sharex=True, sharey=True, squeeze=False)
    layers = range(1, trainings.layers + 1)
    for line, protocol in zip(panels, protocols, strict=True):
        for ax, method in zip(line, methods, strict=True):
            paper = {layer: one[0] for layer, one in zip(layers, trainings.published(method), strict=True) if one}
            ax.plot(list(paper), list(paper.values()), "_--", color="0.35", linewidth=1, label="the paper")
            for number, recipe in enumerate(recipes):
                colour, mark = LOOKS[number % len(LOOKS)]
                aside = 0.12 * (number - (len(recipes) - 1) / 2)
                dots = [
                    (layer + aside, value)
                    for layer in layers
                    for value in trainings.cell(recipe, protocol.name, method, layer).values
                ]
                across, up = zip(*dots, strict=True) if dots else ((), ())
                ax.plot(across, up, mark, color=colour, markersize=4, alpha=0.75, markeredgewidth=0, label=recipe)
            ax.set_title(f"{method}, {protocol.name}", fontsize=9)
            ax.axhline(0, color="0.85", linewidth=0.8, zorder=0)
            ax.spines[["top", "right"]].set_visible(False)
            ax.set_xticks(list(layers))
        line[0].set_ylabel("correlation", fontsize=9)
    for ax in panels[-1]:
        ax.set_xlabel("layer", fontsize=9)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)
    return figure


def subject_trainings_blocks(trainings: SubjectTrainings) -> Iterator[TextBlock]:
    first = next(iter(trainings.tables.values()))
    for recipe, models in trainings.groups.items():
        yield TextBlock(
            heading=f"Relevance of words for CLS at layer {first.layer}, {_of(recipe)}: {_count(models)}, "
            f"sentences of {first.source}",
            lines=list(_trainings_subject_lines(trainings, recipe, first.attractors_known)),
            foot=(
                "Mean shares over models of what falls on words, ± their deviation between models. Even spread is "
                "what chance gives.",
            ),
        )


def subject_trainings_rows(trainings: SubjectTrainings) -> list[dict[str, Any]]:
    """A row for each model, measure, kind of prediction and part of the sentence."""
    return [
        {
            "recipe": recipe,
            "model": model,
            "predictions": predictions,
            "measure": measure,
            "part": part,
            **vars(shares[part]),
        }
        for recipe in trainings.by_recipe
        for (predictions, measure), several in trainings.shares(recipe).items()
        for model, shares in several.items()
        for part in _PARTS
    ]


def plot_subject_trainings(trainings: SubjectTrainings) -> Figure:
    """A panel for right and one for wrong predictions: a dot for each model, the share of the subject by measure."""
    from matplotlib.figure import Figure

    recipes = trainings.by_recipe
    keys = list(dict.fromkeys(key for recipe in recipes for key in trainings.shares(recipe)))
    kinds, measures = (list(dict.fromkeys(key[place] for key in keys)) for place in (0, 1))
    figure = Figure(figsize=(4.4 * len(kinds), 0.6 + 0.32 * len(measures) + 0.6), layout="constrained")
    for ax, kind in zip(figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0], kinds, strict=True):
        for number, recipe in enumerate(recipes):
            colour, mark = LOOKS[number % len(LOOKS)]
            shares = trainings.shares(recipe)
            dots = [
                (100 * parts["subject"].mean, -place)
                for place, measure in enumerate(measures)
                for parts in shares.get((kind, measure), {}).values()
                if parts["subject"].mean is not None
            ]
            across, up = zip(*dots, strict=True) if dots else ((), ())
            ax.plot(across, up, mark, color=colour, markersize=5, alpha=0.75, markeredgewidth=0, label=recipe)
        ax.set_yticks([-place for place in range(len(measures))], measures)
        ax.set_title(f"{kind} predictions", fontsize=10)
        ax.set_xlabel("% of relevance on the subject")
        ax.spines[["top", "right"]].set_visible(False)
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return figure


def _of(recipe: str) -> str:
    return recipe if recipe in (ALL, UNNAMED) else f"recipe {recipe}"


def _count(models: Sequence[str]) -> str:
    return f"{len(models)} model{'s' * (len(models) > 1)}"


def _right(trainings: Trainings, models: Sequence[str]) -> tuple[str, ...]:
    """How often each model is right, which its numbers rest on."""
    told = [(name, trainings.tables[name].accuracy) for name in models]
    known = [f"{name} {accuracy:.1%}" for name, accuracy in told if accuracy is not None]
    return (f"Right on these sentences: {', '.join(known)}.",) if known else ()


def _foot(models: int, same_sentences: bool) -> tuple[str, ...]:
    expected = (
        "a new training: 95 % prediction interval from the models, by Student's t."
        if models >= FEWEST
        else "a range of two says little of where a third would come out."
        if models > 1
        else "One model tells nothing of how another training would come out."
    )
    name = "± between models is the deviation of their means, ± between sentences that within a model; " + expected
    return (name if models > 1 else expected, *([] if same_sentences else ["Not all models met the same sentences."]))


def _lines(trainings: Trainings, recipe: str, protocol: str) -> Iterator[list[str]]:
    layers = range(1, trainings.layers + 1)
    yield ["", "", *(f"L{layer}" for layer in layers)]
    for method in trainings.methods:
        cells = [trainings.cell(recipe, protocol, method, layer) for layer in layers]
        sentences = [trainings.between_sentences(recipe, protocol, method, layer) for layer in layers]
        paper = [None if one is None else one[0] for one in trainings.published(method)]
        head = iter([method])

        def line(title: str, told: Sequence[str], head: Iterator[str] = head) -> list[str]:
            return [next(head, ""), title, *told]

        if any(value is not None for value in paper):
            yield line("published", [decimals(value) for value in paper])
        alone = all(len(cell.values) < 2 for cell in cells)
        yield line("the model" if alone else "mean of models", [decimals(cell.mean) for cell in cells])
        if any(cell.deviation is not None for cell in cells):
            yield line("± between models", [decimals(cell.deviation) for cell in cells])
        yield line("± between sentences", [decimals(sentence) for sentence in sentences])
        if any(cell.expected is not None for cell in cells):
            title = "a new training" if any(len(cell.values) >= FEWEST for cell in cells) else "range of the two"
            yield line(title, [_trainings_interval(_correlations(cell.expected)) for cell in cells])
            if any(value is not None for value in paper):
                yield line("the paper is", [_place(cell, known) for cell, known in zip(cells, paper, strict=True)])


def _claim_lines(trainings: Trainings, protocol: str) -> Iterator[list[str]]:
    yield [
        "recipe",
        "models",
        *(head for claim in CLAIMS for head in (claim.name, "by", "95 % over models")),
        "± training",
    ]
    for recipe, models in trainings.groups.items():
        names = []
        for claim in CLAIMS:
            margin, holds = trainings.claim(claim, recipe, protocol)
            names += [f"in {holds} of {len(models)}", _signed(margin), _trainings_interval(margin.interval)]
        yield [recipe, str(len(models)), *names, decimals(trainings.luck(recipe, protocol))]


def _trainings_subject_lines(trainings: SubjectTrainings, recipe: str, attractors_known: bool) -> Iterator[list[str]]:
    yield ["predictions", "measure", *_PARTS]
    before = ""
    for (predictions, measure), several in trainings.shares(recipe).items():
        shares = {part: Spread.of([shares[part].mean for shares in several.values()]) for part in _PARTS}
        names = [
            "–" if part == "attractors" and not attractors_known else _trainings_percent(share)
            for part, share in shares.items()
        ]
        yield [predictions if predictions != before else "", measure, *names]
        before = predictions


def _trainings_interval(interval: tuple[float, float] | None) -> str:
    return "–" if interval is None else f"{decimals(interval[0])} to {decimals(interval[1])}"


def _correlations(interval: tuple[float, float] | None) -> tuple[float, float] | None:
    """As far as there are such correlations."""
    return None if interval is None else (max(-1.0, interval[0]), min(1.0, interval[1]))


def _place(cell: Spread, published: float | None) -> str:
    return "–" if published is None else cell.place(published) or "–"


def _signed(spread: Spread) -> str:
    return f"+{decimals(spread.mean)}" if (spread.mean or 0) > 0.005 else decimals(spread.mean)


def _trainings_percent(spread: Spread) -> str:
    if spread.mean is None:
        return "–"
    return f"{spread.mean:.1%}" + ("" if spread.deviation is None else f" ± {100 * spread.deviation:.1f}")


SHIPPED = "verb-number"
FORMS: Mapping[str, Callable[[Study[Any]], str]] = {
    ".json": lambda study: study.to_json(),
    ".md": lambda study: study.to_markdown(),
    ".csv": lambda study: study.to_csv(),
    ".txt": lambda study: study.to_text(),
}


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m examples.training.study", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("table", choices=("table1", "table2", "subject"))
    parser.add_argument(
        "--models",
        nargs="+",
        required=True,
        metavar="DIR",
        help=f"folders of models; {SHIPPED} is the shipped one, and a .json file of a study brings its models along",
    )
    parser.add_argument("--data", action="append", type=Path, help="a file in Linzen's format; may be repeated")
    parser.add_argument("--held-out", action="store_true", help="only lines that no model was trained on")
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="of the sentences, unless --held-out, and the bootstrap")
    parser.add_argument("--protocol", choices=(*PROTOCOLS, "both"), default="both")
    parser.add_argument("--layer", type=int, help="of the subject check, from 1 next to the input; else the last")
    parser.add_argument("--run-dir", help="keep the work in this folder, so that the same command resumes it")
    parser.add_argument("--output", type=Path, help=f"also write to a file: {', '.join(FORMS)}")
    parser.add_argument("--plot", type=Path, help="also draw it: a .png, .svg or .pdf")
    options = parser.parse_args(arguments)
    if options.held_out and not options.data:
        parser.error("--held-out needs the files of the models' training: --data FILE --data FILE …")
    if options.output is not None and options.output.suffix not in FORMS:
        parser.error(f"--output ends in {', '.join(FORMS)}, found {options.output}")
    return options


def _models(options: argparse.Namespace) -> Iterator[Trained]:
    """One model after the other."""
    for place in options.models:
        if place.endswith(".json"):
            continue
        with demo_directory() as demo:
            directory = demo if place == SHIPPED else Path(place)
            model, tokenizer = load_trained(directory)
            recipe = read_note(directory).get("name") or UNNAMED
            name = SHIPPED if place == SHIPPED else directory.resolve().name
            print(f"{name} ({recipe})", file=sys.stderr)
            if not options.data:
                chosen = paper_sentences.generated(options.samples, options.seed)
            elif options.held_out:
                with_subject = options.table == "subject"
                chosen = paper_sentences.never_trained_on(
                    directory, options.data, options.samples, with_subject=with_subject
                )
            else:
                chosen = paper_sentences.from_files(options.data, options.samples, options.seed)
            trained = Trained(name, recipe, model, tokenizer, paper_sentences.prepare(model, tokenizer, *chosen))
        yield trained


def study(options: argparse.Namespace) -> Study[Any]:
    """The table over the models that were named, joined with studies that were saved."""
    kind: type[Study[Any]] = SubjectTrainings if options.table == "subject" else Trainings
    parts = [
        kind.from_json(Path(name).read_text(encoding="utf-8")) for name in options.models if name.endswith(".json")
    ]
    settings = {"seed": options.seed, "progress": sys.stderr.isatty(), "run_dir": options.run_dir}
    if not all(name.endswith(".json") for name in options.models):
        if options.table == "subject":
            parts.append(subject_over_trainings(_models(options), layer=options.layer, **settings))
        else:
            protocols = [protocol for name, protocol in PROTOCOLS.items() if options.protocol in (name, "both")]
            measure = {"table1": table1, "table2": table2}[options.table]
            parts.append(over_trainings(measure, _models(options), protocols=protocols, **settings))
    return parts[0] if len(parts) == 1 else kind.merge(parts)


def main(arguments: Sequence[str] | None = None) -> None:
    options = _arguments(arguments)
    try:
        result = study(options)
        if options.output is not None:
            options.output.write_text(FORMS[options.output.suffix](result).rstrip("\n") + "\n", encoding="utf-8")
        print(result.to_text())
        if options.plot is not None:
            save_picture(result.plot(), options.plot)
    except AttnxError as error:
        sys.exit(f"attnx: {error}")


if __name__ == "__main__":
    main()
