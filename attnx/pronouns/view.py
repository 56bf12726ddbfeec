"""A report on pronouns to look at: rates by method and layer, beside chance and what needs no attention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from attnx.errors import InputError
from attnx.methods import title_of
from attnx.pronouns.result import Probe, Rates, Report
from attnx.statistics import Summary
from attnx.views import TextBlock

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""One for each candidate, told apart by colour-blind readers, too (Okabe & Ito)."""

_NOBODY = "#999999"
_MARKERS = "os^Dv*"


def pronouns_blocks(probe: Probe) -> list[TextBlock]:
    """The pronouns' probabilities, and a line for each method and layer."""
    relative = probe.relative
    lead = []
    for pronoun, value in probe.probabilities.items():
        speaks = f", speaks for {probe.implies[pronoun]}" if pronoun in probe.implies else ""
        lead.append(f"p({pronoun}) = {value:.3f}, {relative[pronoun]:.1%} of the pronouns{speaks}")
    return [TextBlock(heading=probe.text, lead=tuple(lead), lines=list(_lines(probe)))]


def pronouns_rows(probe: Probe) -> list[dict[str, Any]]:
    """A row for each method, layer and candidate; a reference has no layer."""
    return [
        {"method": method, "layer": layer, "candidate": candidate.name, "relevance": value}
        for method, values in probe.relevance.items()
        for layer, row in zip(probe.layers, values.tolist(), strict=True)
        for candidate, value in zip(probe.candidates, row, strict=True)
    ] + [
        {"method": name, "layer": None, "candidate": candidate.name, "relevance": value}
        for name, row in probe.references.items()
        for candidate, value in zip(probe.candidates, row.tolist(), strict=True)
    ]


def panels(probes: Sequence[Probe]) -> Figure:
    """A row for each sentence. A pronoun's bar has the colour of the candidate that it speaks for.

    Each panel has its own scale: rollout and flow are of different size. A hollow mark is a tie.
    """
    from matplotlib.figure import Figure

    if not probes:
        raise InputError("a figure needs at least one sentence")
    methods, references = probes[0].methods, probes[0].references
    widths = [0.75, *[0.75] * len(references), *[1.0] * len(methods)]
    figure = Figure(figsize=(3.0 * sum(widths), 3.1 * len(probes)), layout="constrained")
    rows = figure.subfigures(len(probes), 1, squeeze=False)[:, 0]
    for row, probe in zip(rows, probes, strict=True):
        row.suptitle(probe.text, fontsize=11)
        bars, *others = row.subplots(1, len(widths), width_ratios=widths, squeeze=False)[0]
        _bars(bars, probe)
        for axes, name in zip(others, references, strict=False):
            _parts(axes, probe, name)
        curves = others[len(references) :]
        for axes, method in zip(curves, methods, strict=True):
            _curves(axes, probe, method)
        curves[0].legend(frameon=False, fontsize=8, loc="best")
    return figure


def _lines(probe: Probe) -> Iterator[list[str]]:
    names = [candidate.name for candidate in probe.candidates]
    yield ["", "layer", *names, "draws from", *(["verdict"] if probe.implied else [])]
    for method, scores in probe.relevance.items():
        found = zip(probe.layers, scores, probe.drawn_from(method), probe.verdicts(method), strict=True)
        for layer, values, most, verdict in found:
            yield [
                method if layer == probe.layers[0] else "",
                str(layer),
                *(f"{value:.3f}" for value in values),
                most or "undecided",
                *([verdict] if probe.implied else []),
            ]
    for name, row in probe.references.items():
        (most,), (verdict,) = probe.drawn_from(name), probe.verdicts(name)
        cells = [f"{value:+.3f}" for value in row]
        yield [name, "", *cells, most or "undecided", *([verdict] if probe.implied else [])]


def _bars(axes: Axes, probe: Probe) -> None:
    relative = probe.relative
    for place, (pronoun, share) in enumerate(relative.items()):
        axes.bar(place, share, width=0.62, color=_colours(probe).get(probe.implies.get(pronoun, ""), _NOBODY))
        axes.text(place, share + 0.02, f"p = {probe.probabilities[pronoun]:.3f}", ha="center", fontsize=8)
    axes.set_xticks(range(len(relative)), list(relative), fontsize=9)
    axes.set_xlim(-0.6, len(relative) - 0.4)
    axes.set_ylim(0, 1.1)
    axes.set_yticks([0, 0.5, 1])
    axes.set_title("relative probability\np: among all tokens", fontsize=9)
    axes.tick_params(labelsize=9, length=2)
    axes.spines[["top", "right"]].set_visible(False)


def _parts(axes: Axes, probe: Probe, name: str) -> None:
    """What each candidate adds to the likelier pronoun; below 0 it speaks for the next likely one."""
    for place, (candidate, value) in enumerate(zip(probe.candidates, probe.references[name], strict=True)):
        axes.bar(place, value, width=0.62, color=_colours(probe)[candidate.name])
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_xticks(range(len(probe.candidates)), [candidate.name for candidate in probe.candidates], fontsize=9)
    axes.set_xlim(-0.6, len(probe.candidates) - 0.4)
    axes.margins(y=0.15)
    likelier = f"adds to {probe.predicted!r}" if probe.predicted else "adds to the first pronoun"
    verdict = probe.verdicts(name)[0] if probe.implied else ""
    axes.set_title(f"{name}: {likelier}\n{verdict}", fontsize=9)
    axes.tick_params(labelsize=8, length=2)
    axes.spines[["top", "right"]].set_visible(False)


def _curves(axes: Axes, probe: Probe, method: str) -> None:
    tied = [row for row, most in enumerate(probe.drawn_from(method)) if most is None]
    for column, candidate in enumerate(probe.candidates):
        values, colour = probe.relevance[method][:, column], _colours(probe)[candidate.name]
        look: dict[str, Any] = {"color": colour, "marker": _MARKERS[column % len(_MARKERS)], "markersize": 5}
        axes.plot(probe.layers, values, linewidth=1.5, label=candidate.name, **look)
        layers = [probe.layers[row] for row in tied]
        axes.plot(layers, values[tied], linewidth=0, markerfacecolor="white", **look)
    axes.set_title(f"{title_of(method)}\n{_verdict(probe, method)}", fontsize=9)
    axes.set_ylim(bottom=0)
    axes.set_xticks(probe.layers if len(probe.layers) <= 12 else probe.layers[1::2])
    axes.set_xlabel("layer", fontsize=8)
    axes.tick_params(labelsize=8, length=2)
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _colours(probe: Probe) -> dict[str, str]:
    return {candidate.name: COLOURS[index % len(COLOURS)] for index, candidate in enumerate(probe.candidates)}


def _verdict(probe: Probe, method: str) -> str:
    """In how many layers the mask draws most from the candidate that the prediction implies."""
    verdicts = probe.verdicts(method)
    if probe.implied is None:
        return ""
    ties = f", {verdicts.count('undecided')} undecided" if "undecided" in verdicts else ""
    return f"consistent in {verdicts.count('consistent')} of {len(verdicts)} layers{ties}"


_FOOT = (
    "Shares of decided sentences, with the 95 % interval of a bootstrap over sentences. Candidates that tie to "
    "1e-9 are undecided."
)


def pronoun_report_blocks(report: Report) -> Iterator[TextBlock]:
    """What was predicted, and a table for each question that applies to the data."""
    names = dict.fromkeys(str(report.provenance[key]) for key in ("model", "class") if key in report.provenance)
    title = ", ".join([f"Pronouns: {report.sentences:,} sentences of {report.source}", *names])
    yield TextBlock(title, lead=(_predictions(report),))
    for rates in (report.right, report.implied):
        rest = f", {rates.left_out:,} left out" if rates.left_out else ""
        heading = f"Drawn most from {rates.wanted} ({rates.sentences:,} sentences{rest})"
        if rates.sentences:
            yield TextBlock(heading, lines=list(_pronoun_report_lines(rates, report.layers)))
        else:
            yield TextBlock(heading, lead=("Does not apply: no sentence says which one that is.",))
    yield TextBlock(foot=(_FOOT,))


def pronoun_report_rows(report: Report) -> list[dict[str, Any]]:
    """A row for each question, method and layer."""
    return [
        {"wanted": rates.wanted, "method": method, "layer": layer, **vars(cell)}
        for rates in (report.right, report.implied)
        for method, cells in rates.methods.items()
        for layer, cell in zip(report.layers, cells, strict=False)
    ] + [
        {"wanted": rates.wanted, "method": name, "layer": None, **vars(cell)}
        for rates in (report.right, report.implied)
        for name, cell in rates.references.items()
    ]


_METHOD_COLOURS = ("#999999", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
"""One for each method, in their order; told apart by colour-blind readers, too (Okabe & Ito)."""

_METHOD_MARKERS = "osD^vP*"
_BASELINES = {"nearest candidate": ":", "commonest pronoun's": "-."}


def curves(report: Report) -> Figure:
    """One column of panels for each question that applies to the data."""
    from matplotlib.figure import Figure

    asked = [rates for rates in (report.right, report.implied) if rates.sentences]
    if not asked:
        raise InputError("there is nothing to draw: no sentence has an answer, or says what its pronouns imply")
    ties = any(cell.undefined for rates in asked for cells in rates.methods.values() for cell in cells)
    heights = (3.4, 1.0) if ties else (3.4,)
    figure = Figure(figsize=(5.2 * len(asked) + 0.4, 0.8 + sum(heights)), layout="constrained")
    panels = figure.subplots(len(heights), len(asked), height_ratios=heights, sharex=True, squeeze=False)
    for column, rates in enumerate(asked):
        _shares(panels[0, column], rates, report.layers)
        panels[0, column].set_title(f"drawn most from {rates.wanted}\n{rates.sentences:,} sentences", fontsize=10)
        if ties:
            _undecided(panels[1, column], rates, report.layers)
        panels[-1, column].set_xlabel("layer", fontsize=9)
    for axes, label in zip(panels[:, 0], ("% of decided sentences", "% undecided"), strict=False):
        axes.set_ylabel(label, fontsize=9)
    legend = dict(zip(*reversed(panels[0, -1].get_legend_handles_labels()), strict=True))
    figure.legend(legend.values(), legend, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def _shares(axes: Axes, rates: Rates, layers: tuple[int, ...]) -> None:
    for number, (name, cells) in enumerate(rates.methods.items()):
        means, lows, highs = (_percent([getattr(cell, key) for cell in cells]) for key in ("mean", "low", "high"))
        place = np.array(layers) + 0.12 * (number - (len(rates.methods) - 1) / 2)  # intervals beside each other
        colour = _METHOD_COLOURS[number % len(_METHOD_COLOURS)]
        axes.errorbar(
            place,
            means,
            yerr=np.maximum(np.stack([means - lows, highs - means]), 0),  # a bound may round beyond the mean
            color=colour,
            marker=_METHOD_MARKERS[number % len(_METHOD_MARKERS)],
            markersize=5,
            linewidth=1.5,
            elinewidth=1,
            label=name,
        )
    for number, (name, cell) in enumerate(rates.references.items(), start=len(rates.methods)):
        if cell.mean is not None:
            colour = _METHOD_COLOURS[number % len(_METHOD_COLOURS)]
            axes.axhline(100 * cell.mean, color=colour, linewidth=2, label=f"{name} (of no layer)")
    axes.axhline(100 * (rates.chance or 0), color="black", linewidth=1, linestyle="--", label="chance")
    for name, style in _BASELINES.items():
        mean = rates.baselines[name].mean
        if mean is not None:
            axes.axhline(100 * mean, color="black", linewidth=1, linestyle=style, label=name)
    axes.set_ylim(-2, 102)
    _plain(axes, layers)


def _undecided(axes: Axes, rates: Rates, layers: tuple[int, ...]) -> None:
    width = 0.8 / len(rates.methods)
    for number, cells in enumerate(rates.methods.values()):
        place = np.array(layers) + width * (number - (len(rates.methods) - 1) / 2)
        shares = [100 * cell.undefined / rates.sentences for cell in cells]
        axes.bar(place, shares, width=width, color=_METHOD_COLOURS[number % len(_METHOD_COLOURS)])
    axes.set_ylim(0, 100)
    _plain(axes, layers)


def _plain(axes: Axes, layers: tuple[int, ...]) -> None:
    axes.set_xticks(layers)
    axes.tick_params(labelsize=8)
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _percent(values: list[float | None]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """NaN where there is no number, which leaves a gap in the line."""
    return np.array([np.nan if value is None else 100 * value for value in values], dtype=np.float64)


def _predictions(report: Report) -> str:
    counts = ", ".join(f"{pronoun} {count:,}" for pronoun, count in report.predicted.items())
    right = ""
    if report.prediction.mean is not None:
        right = f" The prediction implies the right referent in {_share(report.prediction)}."
    return f"Predicted: {counts}. The pronouns have {report.mass:.1%} of the probability on average.{right}"


def _pronoun_report_lines(rates: Rates, layers: Sequence[int]) -> Iterator[list[str]]:
    """The cells of the printed table, the head first; a column of ties for a method that has any."""
    tied = [name for name, cells in rates.methods.items() if any(cell.undefined for cell in cells)]
    columns = [column for name in rates.methods for column in ([name, "undecided"] if name in tied else [name])]
    yield ["layer", *columns]
    for row, layer in enumerate(layers):
        line = [str(layer)]
        for name, cells in rates.methods.items():
            line += [_share(cells[row]), *([str(cells[row].undefined)] if name in tied else [])]
        yield line
    baseline = [""] * (len(columns) - 1)
    for name, cell in rates.references.items():
        yield [name, f"{_share(cell)}{_ties(cell)}", *baseline]
    yield ["chance", "–" if rates.chance is None else f"{rates.chance:.1%}", *baseline]
    for name, cell in rates.baselines.items():
        if cell.mean is None:
            continue
        yield [name, f"{_share(cell)}{_ties(cell)}", *baseline]


def _ties(cell: Summary) -> str:
    return f", {cell.undefined:,} undecided" if cell.undefined else ""


def _share(cell: Summary) -> str:
    if cell.mean is None or cell.low is None or cell.high is None:
        return "–"
    return f"{cell.mean:.1%} ({100 * cell.low:.1f} to {100 * cell.high:.1f})"
