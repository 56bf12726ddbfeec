"""Tables over many trainings to read: the paper's value, the models', and whether the one lies among the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from attnx.paper.table import (
    ALL,
    CLAIMS,
    UNNAMED,
    ByProtocol,
    MeanDeviation,
    Published,
    SubjectTable,
    SubjectTrainings,
    Table,
    Trainings,
)
from attnx.statistics import FEWEST, Spread, Summary
from attnx.views import LOOKS, TextBlock, decimals

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARTS = ("subject", "attractors", "other", "subject_first")


def table_blocks(table: Table) -> Iterator[TextBlock]:
    """One for each protocol."""
    right = "" if table.accuracy is None else f" (model right in {table.accuracy:.1%}{_chance(table)})"
    for one in table.measured:
        about = f"{table.title}, {table.reference}, protocol {one.protocol.name}"
        undefined = max(cell.undefined for cells in one.cells.values() for cell in cells)
        name = f"up to {undefined:,} in a cell" if undefined else "there are none"
        described = one.protocol.describe(table.reference)
        yield TextBlock(
            heading=f"{about}: {table.samples:,} sentences of {table.source}{right}",
            lines=list(_table_lines(table.published, one)),
            foot=(f"{described[0].upper()}{described[1:]} ({name}).",),
        )


def _chance(table: Table) -> str:
    """Whether the model knows the task at all, which its numbers rest on."""
    if table.majority is None or table.accuracy is None or table.accuracy > table.majority:
        return ""
    if table.majority == 1:
        return ", but all sentences have the same answer"
    return f", NO BETTER THAN ALWAYS THE MOST FREQUENT ANSWER: {table.majority:.1%}"


def table_rows(table: Table) -> list[dict[str, Any]]:
    """A row for each protocol, method and layer."""
    return [
        {
            "protocol": one.protocol.name,
            "method": method,
            "layer": layer,
            "published": None if known is None else known[0],
            **vars(cell),
        }
        for one in table.measured
        for method, cells in one.cells.items()
        for layer, (known, cell) in enumerate(zip(_known(table.published, method, cells), cells, strict=True), 1)
    ]


def plot_table(table: Table) -> Figure:
    """A panel for each protocol: the means by layer with their 95 % intervals, those of the paper dashed."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.4 * len(table.measured), 3.4), layout="constrained")
    panels = figure.subplots(1, len(table.measured), sharey=True, squeeze=False)[0]
    for ax, one in zip(panels, table.measured, strict=True):
        for number, (method, cells) in enumerate(one.cells.items()):
            colour, mark = LOOKS[number % len(LOOKS)]
            known = [(layer, cell) for layer, cell in enumerate(cells, 1) if cell.mean is not None]
            mean, low, high = ([getattr(cell, end) for _, cell in known] for end in ("mean", "low", "high"))
            layers = [layer for layer, _ in known]
            ax.plot(layers, mean, color=colour, marker=mark, markersize=4, label=method)
            ax.fill_between(layers, low, high, color=colour, alpha=0.15, linewidth=0)
            paper = {layer: cell[0] for layer, cell in enumerate(table.published.get(method, ()), 1) if cell}
            ax.plot(list(paper), list(paper.values()), color=colour, linestyle="--")
        ax.set_title(f"{table.title}, {one.protocol.name}", fontsize=10)
        ax.set_xlabel("layer")
        ax.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel(f"correlation with {table.reference}")
    panels[-1].legend(frameon=False)
    return figure


def subject_blocks(table: SubjectTable) -> list[TextBlock]:
    unknown = "" if table.attractors_known else " Attractors are not marked in this data: they are among other words."
    return [
        TextBlock(
            heading=f"Relevance of words for CLS at layer {table.layer}: sentences of {table.source}",
            lines=list(_subject_lines(table)),
            foot=(
                "Mean shares of what falls on words, special tokens aside. Even spread is what chance gives." + unknown,
            ),
        )
    ]


def subject_rows(table: SubjectTable) -> list[dict[str, Any]]:
    """A row for each measure, kind of prediction and part of the sentence."""
    return [
        {"predictions": share.predictions, "measure": share.measure, "part": part, **vars(getattr(share, part))}
        for share in table.shares
        for part in PARTS
    ]


def plot_subject(table: SubjectTable) -> Figure:
    """A panel for right and one for wrong predictions: the share of the subject by each measure."""
    from matplotlib.figure import Figure

    kinds = list(dict.fromkeys(share.predictions for share in table.shares))
    figure = Figure(figsize=(4.4 * len(kinds), 3.2), layout="constrained")
    for ax, kind in zip(figure.subplots(1, len(kinds), sharex=True, squeeze=False)[0], kinds, strict=True):
        shown = [share for share in table.shares if share.predictions == kind and share.subject.mean is not None]
        for place, shares in enumerate(reversed(shown)):
            mean, low, high = (100 * (getattr(shares.subject, end) or 0.0) for end in ("mean", "low", "high"))
            ax.barh(place, mean, xerr=[[max(0.0, mean - low)], [max(0.0, high - mean)]], color=LOOKS[0][0])
        ax.set_yticks(range(len(shown)), [one.measure for one in reversed(shown)])
        ax.set_title(f"{kind} predictions", fontsize=10)
        ax.set_xlabel("% of relevance on the subject")
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def _table_lines(published: Published, measured: ByProtocol) -> Iterator[list[str]]:
    """The cells of the printed table, line by line, the head first."""
    yield ["", "", *(f"L{layer}" for layer in range(1, len(measured.tied) + 1))]
    for method, cells in measured.cells.items():
        known = _known(published, method, cells)
        reproduced = [_mean_deviation(cell.mean, cell.deviation) for cell in cells]
        if method in published:
            yield [method, "published", *("–" if one is None else _mean_deviation(*one) for one in known)]
        yield ["" if method in published else method, "reproduced", *reproduced]
        yield ["", "95 % of mean", *(_interval(cell) for cell in cells)]
        if method in published:
            yield ["", "difference", *map(_difference, known, cells)]
        if any(cell.undefined for cell in cells):
            yield ["", "undefined", *(str(cell.undefined) for cell in cells)]
    yield ["", "tied share", *(f"{share:.0%}" for share in measured.tied)]


def _known(published: Published, method: str, cells: tuple[Summary, ...]) -> list[MeanDeviation | None]:
    return [*published.get(method, ()), *[None] * len(cells)][: len(cells)]


def _subject_lines(table: SubjectTable) -> Iterator[list[str]]:
    yield ["predictions", "measure", "subject", "95 % of mean", "attractors", "other words", "subject first"]
    for index, share in enumerate(table.shares):
        total = share.subject.count + share.subject.undefined
        is_new = index == 0 or table.shares[index - 1].predictions != share.predictions
        yield [
            f"{share.predictions} ({total:,})" if is_new else "",
            share.measure,
            _percent(share.subject.mean),
            f"{_percent(share.subject.low)} to {_percent(share.subject.high)}",
            _percent(share.attractors.mean) if table.attractors_known else "–",
            _percent(share.other.mean),
            _percent(share.subject_first.mean),
        ]


def _mean_deviation(mean: float | None, deviation: float | None) -> str:
    return "–" if mean is None else f"{decimals(mean)}±{decimals(deviation)}"


def _interval(cell: Summary) -> str:
    return "–" if cell.mean is None else f"{decimals(cell.low)} to {decimals(cell.high)}"


def _difference(published: MeanDeviation | None, cell: Summary) -> str:
    if published is None or cell.mean is None:
        return "–"
    difference = round(cell.mean, 2) - published[0]
    return f"+{decimals(difference)}" if difference > 0.005 else decimals(difference)


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


_PARTS = {"subject": "subject", "attractors": "attractors", "subject first": "subject_first"}
_PANEL = (2.6, 2.6)
"""Inches of a panel."""


def trainings_blocks(trainings: Trainings) -> Iterator[TextBlock]:
    """One for each protocol and recipe, then the claims under each protocol."""
    first = next(iter(trainings.tables.values()))
    for protocol in trainings.protocols:
        about = f"{first.title}, {first.reference}, protocol {protocol.name}"
        for recipe, models in trainings.groups.items():
            yield TextBlock(
                heading=f"{about}, {_of(recipe)}: {_models(models)}, {first.samples:,} sentences of {first.source}",
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
        for model, measured in trainings.measured(recipe, protocol.name).items()
        for method, cells in measured.cells.items()
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
            heading=f"Relevance of words for CLS at layer {first.layer}, {_of(recipe)}: {_models(models)}, "
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
            **vars(getattr(shares, name)),
        }
        for recipe in trainings.by_recipe
        for (predictions, measure), several in trainings.shares(recipe).items()
        for model, shares in several.items()
        for part, name in _PARTS.items()
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
                (100 * one.subject.mean, -place)
                for place, measure in enumerate(measures)
                for one in shares.get((kind, measure), {}).values()
                if one.subject.mean is not None
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


def _models(models: Sequence[str]) -> str:
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
        shares = {
            part: Spread.of([getattr(shares, name).mean for shares in several.values()])
            for part, name in _PARTS.items()
        }
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
