"""A report on pronouns to look at: rates by method and layer, beside chance and what needs no attention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from attnx.errors import InputError
from attnx.methods import title_of
from attnx.pronouns.result import Probe
from attnx.views import TextBlock

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""One for each candidate, told apart by color-blind readers, too (Okabe & Ito)."""

_NOBODY = "#999999"
_MARKERS = "os^Dv*"


def pronouns_blocks(probe: Probe) -> list[TextBlock]:
    """The pronouns' probabilities, and a line for each method and layer."""
    relative = probe.relative
    lead = []
    for pronoun, value in probe.probabilities.items():
        speaks = f", refers to {probe.implies[pronoun]}" if pronoun in probe.implies else ""
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
    """A row for each sentence. A pronoun's bar has the color of the candidate that it refers to.

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
    yield ["", "layer", *names, "top candidate", *(["verdict"] if probe.implied else [])]
    for method, scores in probe.relevance.items():
        rows = zip(probe.layers, scores, probe.top_candidates(method), probe.verdicts(method), strict=True)
        for layer, values, most, verdict in rows:
            yield [
                method if layer == probe.layers[0] else "",
                str(layer),
                *(f"{value:.3f}" for value in values),
                most or "undecided",
                *([verdict] if probe.implied else []),
            ]
    for name, row in probe.references.items():
        (most,), (verdict,) = probe.top_candidates(name), probe.verdicts(name)
        cells = [f"{value:+.3f}" for value in row]
        yield [name, "", *cells, most or "undecided", *([verdict] if probe.implied else [])]


def _bars(axes: Axes, probe: Probe) -> None:
    relative = probe.relative
    for number, (pronoun, share) in enumerate(relative.items()):
        axes.bar(number, share, width=0.62, color=_colors(probe).get(probe.implies.get(pronoun, ""), _NOBODY))
        axes.text(number, share + 0.02, f"p = {probe.probabilities[pronoun]:.3f}", ha="center", fontsize=8)
    axes.set_xticks(range(len(relative)), list(relative), fontsize=9)
    axes.set_xlim(-0.6, len(relative) - 0.4)
    axes.set_ylim(0, 1.1)
    axes.set_yticks([0, 0.5, 1])
    axes.set_title("relative probability\np: among all tokens", fontsize=9)
    axes.tick_params(labelsize=9, length=2)
    axes.spines[["top", "right"]].set_visible(False)


def _parts(axes: Axes, probe: Probe, name: str) -> None:
    """What each candidate adds to the likelier pronoun; below 0 it refers to the next likely one."""
    for number, (candidate, value) in enumerate(zip(probe.candidates, probe.references[name], strict=True)):
        axes.bar(number, value, width=0.62, color=_colors(probe)[candidate.name])
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
    tied = [row for row, most in enumerate(probe.top_candidates(method)) if most is None]
    for column, candidate in enumerate(probe.candidates):
        values, color = probe.relevance[method][:, column], _colors(probe)[candidate.name]
        look: dict[str, Any] = {"color": color, "marker": _MARKERS[column % len(_MARKERS)], "markersize": 5}
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


def _colors(probe: Probe) -> dict[str, str]:
    return {candidate.name: COLORS[index % len(COLORS)] for index, candidate in enumerate(probe.candidates)}


def _verdict(probe: Probe, method: str) -> str:
    """In how many layers the mask draws most from the candidate that the prediction implies."""
    verdicts = probe.verdicts(method)
    if probe.implied is None:
        return ""
    ties = f", {verdicts.count('undecided')} undecided" if "undecided" in verdicts else ""
    return f"consistent in {verdicts.count('consistent')} of {len(verdicts)} layers{ties}"
