"""Relevance over time: the sound itself, and below it a strip for each method and reference, in matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from attnx.inputs.positions import Word
from attnx.inputs.waves import Sound
from attnx.render.axes import VERBATIM, given_or_new, without_frame
from attnx.render.colours import AGAINST, FOR, colour_map
from attnx.render.plain_text import answered, judgement, row_name
from attnx.render.printable import printable
from attnx.render.spectrum import spectrum
from attnx.results.explanation import Explanation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = np.ndarray[Any, np.dtype[Any]]

_WIDTH, _STRIP = 8.0, 0.8
"""Inches of a figure, and of one strip in it."""
_GRAY = "#8b8e96"


def plot_sound(
    explanation: Explanation,
    method: str | None = None,
    layer: int | None = None,
    *,
    head: int | None = None,
    ax: Axes | None = None,
) -> Axes | Figure:
    """One row over the sound in some axes; where neither is named, a strip for every method and reference."""
    if method is None and ax is None:
        return time_strips(explanation, layer=layer, head=head)
    name = explanation.row_name(method, layer, head)
    axes = given_or_new(ax, _WIDTH, 2.4)
    _draw_sound(axes, explanation)
    _shade(axes, explanation, explanation.scores(name, layer, head))
    title = answered(explanation) + row_name(explanation, name, layer, head)
    axes.set_title(title, fontsize=9, loc="left", **VERBATIM)
    axes.set_xlabel("seconds", fontsize=8)
    return axes


def time_strips(
    explanation: Explanation,
    methods: Sequence[str] | None = None,
    layer: int | None = None,
    *,
    head: int | None = None,
) -> Figure:
    """The sound, and below it a strip for each name, on its own scale; blue speaks against the answer."""
    from matplotlib.figure import Figure

    names = list(explanation.names) if methods is None else list(methods)
    figure = Figure(figsize=(_WIDTH, 1.6 + (_STRIP + 0.3) * len(names)), layout="constrained")
    top, *strips = figure.subplots(len(names) + 1, 1, sharex=True, height_ratios=[1.4, *[1] * len(names)])
    _draw_sound(top, explanation)
    top.set_title(str(explanation.prediction or "sound"), fontsize=9, loc="left", **VERBATIM)
    for axes, name in zip(strips, names, strict=True):
        scores = explanation.scores(name, layer, head)
        _draw_row(axes, explanation, scores)
        most = np.abs(sums(explanation, scores)).max(initial=0.0)
        what = row_name(explanation, name, layer, head)
        axes.set_title(f"{what} · largest {most:.2g}", fontsize=8, loc="left", **VERBATIM)
    (strips[-1] if strips else top).set_xlabel("seconds", fontsize=8)
    figure.supxlabel(fill(judgement(explanation, explanation.row_name(), None), 110), fontsize=8, color="#55585f",
                     **VERBATIM)  # fmt: skip
    return figure


def plot_sound_layers(explanation: Explanation, method: str | None = None, *, head: int | None = None) -> Figure:
    """One method at every layer over time, the last on top, on one scale."""
    from matplotlib.figure import Figure

    name = method or explanation.default_method
    explanation[name]  # a reference has no layers
    rows = np.stack([sums(explanation, explanation.scores(name, layer, head)) for layer in explanation.layers])
    figure = Figure(figsize=(_WIDTH, 1.8 + 0.3 * len(rows)), layout="constrained")
    top, below = figure.subplots(2, 1, sharex=True, height_ratios=[1, 0.3 * len(rows)])
    _draw_sound(top, explanation)
    signed = name in explanation.signed
    most = np.abs(rows).max(initial=0.0) or 1.0
    edges = times(explanation)
    mesh = below.pcolormesh([edges[0][0], *[end for _, end in edges]], np.arange(len(rows) + 1) + 0.5, rows,
                            cmap=colour_map(signed=signed), vmin=-most if signed else 0, vmax=most)  # fmt: skip
    below.set_yticks(range(1, len(rows) + 1), [str(layer) for layer in explanation.layers], fontsize=8)
    below.set_ylabel("layer", fontsize=8)
    below.set_xlabel("seconds", fontsize=8)
    top.set_title(f"{name}, layer by layer", fontsize=9, loc="left", **VERBATIM)
    figure.colorbar(mesh, ax=below, fraction=0.03, pad=0.02)
    return figure


def times(explanation: Explanation) -> list[tuple[float, float]]:
    """When each stretch begins and ends, in seconds."""
    found = (explanation.positions.when(one.positions) for one in explanation.stretches)
    return [one for one in found if one is not None]


def written_words(explanation: Explanation) -> list[Word]:
    """What was written of a sound: its words that are neither stretches nor pauses."""
    stretches = {(one.text, one.positions) for one in explanation.stretches}
    others = [one for one in explanation.words if (one.text, one.positions) not in stretches]
    return [one for one in others if not (one.is_punctuation and explanation.positions.when(one.positions))]


def sums(explanation: Explanation, scores: Array) -> Array:
    """The score of each stretch, all its bands together."""
    return np.array([float(scores[list(one.positions)].sum()) for one in explanation.stretches])


def _draw_sound(axes: Axes, explanation: Explanation) -> None:
    """The wave; of a model that hears bands the spectrum, its channels as high as the model has them."""
    sound = explanation.sound
    end = explanation.seconds or 1.0
    if sound is not None and banded(explanation):
        axes.imshow(spectrum(sound), aspect="auto", origin="lower", cmap="gray_r", extent=(0, sound.seconds, 0, 1))
    elif sound is not None:
        low, high = envelope(sound, 1_000)
        axes.fill_between(np.linspace(0, sound.seconds, len(low)), low, high, color=_GRAY, linewidth=0)
    axes.set_xlim(0, end)
    axes.set_yticks([])
    axes.tick_params(labelsize=8)
    without_frame(axes)
    _draw_words(axes, explanation)


def _draw_words(axes: Axes, explanation: Explanation) -> None:
    """What was written frame by frame, at the bottom of the sound, each word over its own time."""
    below = axes.get_xaxis_transform()
    for word in written_words(explanation):
        when = explanation.positions.when(word.positions)
        if when is None:
            continue
        for edge in when:
            axes.axvline(edge, color=_GRAY, linewidth=0.6, linestyle=":")
        axes.text(sum(when) / 2, 0.02, printable(word.text), transform=below, ha="center", va="bottom", fontsize=8,
                  **VERBATIM)  # fmt: skip


def _shade(axes: Axes, explanation: Explanation, scores: Array) -> None:
    """Each position's own box in the colour of its side, the denser the more."""
    places = [one for one in explanation.positions if one.time is not None]
    own = np.array([scores[one.index] for one in places])
    most = np.abs(own).max(initial=0.0)
    channels = max((one.band[1] for one in places if one.band is not None), default=1)
    for one, score in zip(places, own, strict=True):
        if most > 0 and one.time is not None:
            low, high = (0, 1) if one.band is None else (one.band[0] / channels, one.band[1] / channels)
            axes.axvspan(*one.time, low, high, color=FOR if score >= 0 else AGAINST, alpha=0.75 * abs(score) / most,
                         linewidth=0)  # fmt: skip


def _draw_row(axes: Axes, explanation: Explanation, scores: Array) -> None:
    own, edges = sums(explanation, scores), times(explanation)
    starts, widths = [start for start, _ in edges], [end - start for start, end in edges]
    axes.bar(starts, own, widths, align="edge", color=[FOR if one >= 0 else AGAINST for one in own], linewidth=0)
    axes.axhline(0, color=_GRAY, linewidth=0.6)
    axes.set_yticks([])
    axes.tick_params(labelsize=8)
    without_frame(axes)


def banded(explanation: Explanation) -> bool:
    return any(one.band is not None for one in explanation.positions)


def envelope(sound: Sound, columns: int) -> tuple[Array, Array]:
    """The lowest and the highest sample of each of so many parts of the sound."""
    parts = np.array_split(sound.samples, min(columns, len(sound.samples)))
    return np.array([one.min() for one in parts]), np.array([one.max() for one in parts])
