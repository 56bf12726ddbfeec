"""Tables over many trainings to read: the paper's value, the models', and whether the one lies among the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from attnx.agreement.spread import FEWEST, Spread
from attnx.render.axes import LOOKS
from attnx.render.columns import TextBlock, decimals
from attnx.results.trainings import ALL, CLAIMS, UNNAMED, SubjectTrainings, Trainings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PARTS = {"subject": "subject", "attractors": "attractors", "subject first": "subject_first"}
_PANEL = (2.6, 2.6)
"""Inches of a panel."""


def blocks(trainings: Trainings) -> Iterator[TextBlock]:
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


def rows(trainings: Trainings) -> list[dict[str, Any]]:
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


def plot(trainings: Trainings) -> Figure:
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


def subject_blocks(trainings: SubjectTrainings) -> Iterator[TextBlock]:
    first = next(iter(trainings.tables.values()))
    for recipe, models in trainings.groups.items():
        yield TextBlock(
            heading=f"Relevance of words for CLS at layer {first.layer}, {_of(recipe)}: {_models(models)}, "
            f"sentences of {first.source}",
            lines=list(_subject_lines(trainings, recipe, first.attractors_known)),
            foot=(
                "Mean shares over models of what falls on words, ± their deviation between models. Even spread is "
                "what chance gives.",
            ),
        )


def subject_rows(trainings: SubjectTrainings) -> list[dict[str, Any]]:
    """A row for each model, measure, kind of prediction and part of the sentence."""
    return [
        {
            "recipe": recipe,
            "model": model,
            "predictions": predictions,
            "measure": measure,
            "part": part,
            **vars(getattr(one, name)),
        }
        for recipe in trainings.by_recipe
        for (predictions, measure), several in trainings.shares(recipe).items()
        for model, one in several.items()
        for part, name in _PARTS.items()
    ]


def plot_subject(trainings: SubjectTrainings) -> Figure:
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
    told = "± between models is the deviation of their means, ± between sentences that within a model; " + expected
    return (told if models > 1 else expected, *([] if same_sentences else ["Not all models met the same sentences."]))


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

        if any(one is not None for one in paper):
            yield line("published", [decimals(one) for one in paper])
        alone = all(len(one.values) < 2 for one in cells)
        yield line("the model" if alone else "mean of models", [decimals(one.mean) for one in cells])
        if any(one.deviation is not None for one in cells):
            yield line("± between models", [decimals(one.deviation) for one in cells])
        yield line("± between sentences", [decimals(one) for one in sentences])
        if any(one.expected is not None for one in cells):
            title = "a new training" if any(len(one.values) >= FEWEST for one in cells) else "range of the two"
            yield line(title, [_interval(_correlations(one.expected)) for one in cells])
            if any(one is not None for one in paper):
                yield line("the paper is", [_place(one, known) for one, known in zip(cells, paper, strict=True)])


def _claim_lines(trainings: Trainings, protocol: str) -> Iterator[list[str]]:
    yield [
        "recipe",
        "models",
        *(head for claim in CLAIMS for head in (claim.name, "by", "95 % over models")),
        "± training",
    ]
    for recipe, models in trainings.groups.items():
        told = []
        for claim in CLAIMS:
            margin, holds = trainings.claim(claim, recipe, protocol)
            told += [f"in {holds} of {len(models)}", _signed(margin), _interval(margin.interval)]
        yield [recipe, str(len(models)), *told, decimals(trainings.luck(recipe, protocol))]


def _subject_lines(trainings: SubjectTrainings, recipe: str, attractors_known: bool) -> Iterator[list[str]]:
    yield ["predictions", "measure", *_PARTS]
    before = ""
    for (predictions, measure), several in trainings.shares(recipe).items():
        shares = {
            part: Spread.of([getattr(one, name).mean for one in several.values()]) for part, name in _PARTS.items()
        }
        told = ["–" if part == "attractors" and not attractors_known else _percent(one) for part, one in shares.items()]
        yield [predictions if predictions != before else "", measure, *told]
        before = predictions


def _interval(interval: tuple[float, float] | None) -> str:
    return "–" if interval is None else f"{decimals(interval[0])} to {decimals(interval[1])}"


def _correlations(interval: tuple[float, float] | None) -> tuple[float, float] | None:
    """As far as there are such correlations."""
    return None if interval is None else (max(-1.0, interval[0]), min(1.0, interval[1]))


def _place(cell: Spread, published: float | None) -> str:
    return "–" if published is None else cell.place(published) or "–"


def _signed(spread: Spread) -> str:
    return f"+{decimals(spread.mean)}" if (spread.mean or 0) > 0.005 else decimals(spread.mean)


def _percent(spread: Spread) -> str:
    if spread.mean is None:
        return "–"
    return f"{spread.mean:.1%}" + ("" if spread.deviation is None else f" ± {100 * spread.deviation:.1f}")
