"""The best parts of what is no text, as plain text: patches of an image, stretches of a sound."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.cells import cell_len, set_cell_size

from attnx.adapters import Audio, Position, Word
from attnx.results import Explanation, chosen_method, layered_method
from attnx.views.escaping import printable
from attnx.views.plots import VERBATIM, axes_or_new, without_frame
from attnx.views.table import places, written
from attnx.views.terminal import AGAINST, FOR, colour_map
from attnx.views.text import AGAINST_BAR, BAR, FOR_BAR, answered, judgement, notes, row_name, streams_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = np.ndarray[Any, np.dtype[Any]]

_WINDOW, _HOP = 0.025, 0.01
"""Seconds that are heard together, and from one column to the next."""
_RANGE = 60.0
"""Decibels from the loudest to black."""


def spectrum(audio: Audio, rows: int = 96) -> Array:
    """row × column from 0 to 1, the lowest pitch first."""
    window, hop = max(8, round(_WINDOW * audio.rate)), max(1, round(_HOP * audio.rate))
    samples = np.pad(audio.samples.astype(np.float64), (window // 2, window))
    starts = np.arange(0, max(1, len(audio.samples)), hop)
    frames = np.stack([samples[start : start + window] for start in starts]) * np.hanning(window)
    power = np.abs(np.fft.rfft(frames, n=max(window, 4 * rows))) ** 2
    frequencies = np.linspace(0, audio.rate / 2, power.shape[1])
    edges = np.searchsorted(_mel(frequencies), np.linspace(0, _mel(audio.rate / 2), rows + 1))
    bands = [power[:, low : max(high, low + 1)].mean(1) for low, high in pairwise(edges)]
    loudness = 10 * np.log10(np.stack(bands) + 1e-12)
    shades: Array = np.clip(1 + (loudness - loudness.max()) / _RANGE, 0, 1)
    return shades


def _mel(hertz: Any) -> Any:
    return 1127 * np.log1p(np.asarray(hertz) / 700)


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
    name = chosen_method(explanation, method, layer, head)
    axes = axes_or_new(ax, _WIDTH, 2.4)
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

    names = list(explanation.methods) if methods is None else list(methods)
    figure = Figure(figsize=(_WIDTH, 1.6 + (_STRIP + 0.3) * len(names)), layout="constrained")
    top, *strips = figure.subplots(len(names) + 1, 1, sharex=True, height_ratios=[1.4, *[1] * len(names)])
    _draw_sound(top, explanation)
    top.set_title(str(explanation.prediction or "audio"), fontsize=9, loc="left", **VERBATIM)
    for axes, name in zip(strips, names, strict=True):
        scores = explanation.scores(name, layer, head)
        _draw_row(axes, explanation, scores)
        most = np.abs(sums(explanation, scores)).max(initial=0.0)
        what = row_name(explanation, name, layer, head)
        axes.set_title(f"{what} · largest {most:.2g}", fontsize=8, loc="left", **VERBATIM)
    (strips[-1] if strips else top).set_xlabel("seconds", fontsize=8)
    figure.supxlabel(fill(judgement(explanation, explanation.methods[0], None), 110), fontsize=8, color="#55585f",
                     **VERBATIM)  # fmt: skip
    return figure


def plot_sound_layers(explanation: Explanation, method: str | None = None, *, head: int | None = None) -> Figure:
    """One method at every layer over time, the last on top, on one scale."""
    from matplotlib.figure import Figure

    name = layered_method(explanation, method)
    explanation[name]  # a reference has no layers
    rows = np.stack([sums(explanation, explanation.scores(name, layer, head)) for layer in explanation.layers])
    figure = Figure(figsize=(_WIDTH, 1.8 + 0.3 * len(rows)), layout="constrained")
    top, below = figure.subplots(2, 1, sharex=True, height_ratios=[1, 0.3 * len(rows)])
    _draw_sound(top, explanation)
    signed = explanation.attributions[name].signed
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
    found = (explanation.positions.when(word.positions) for word in explanation.time_segments)
    return [one for one in found if one is not None]


def written_words(explanation: Explanation) -> list[Word]:
    """What was written of a sound: its words that are neither stretches nor pauses."""
    time_segments = {(word.text, word.positions) for word in explanation.time_segments}
    others = [word for word in explanation.words if (word.text, word.positions) not in time_segments]
    return [other for other in others if not (other.is_punctuation and explanation.positions.when(other.positions))]


def sums(explanation: Explanation, scores: Array) -> Array:
    """The score of each stretch, all its bands together."""
    return np.array([float(scores[list(word.positions)].sum()) for word in explanation.time_segments])


def _draw_sound(axes: Axes, explanation: Explanation) -> None:
    """The wave; of a model that hears bands the spectrum, its channels as high as the model has them."""
    audio = explanation.audio
    end = explanation.seconds or 1.0
    if audio is not None and banded(explanation):
        axes.imshow(spectrum(audio), aspect="auto", origin="lower", cmap="gray_r", extent=(0, audio.seconds, 0, 1))
    elif audio is not None:
        low, high = envelope(audio, 1_000)
        axes.fill_between(np.linspace(0, audio.seconds, len(low)), low, high, color=_GRAY, linewidth=0)
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
    places = [position for position in explanation.positions if position.time is not None]
    array = np.array([scores[position.index] for position in places])
    most = np.abs(array).max(initial=0.0)
    channels = max((position.band[1] for position in places if position.band is not None), default=1)
    for index, score in zip(places, array, strict=True):
        if most > 0 and index.time is not None:
            low, high = (0, 1) if index.band is None else (index.band[0] / channels, index.band[1] / channels)
            axes.axvspan(*index.time, low, high, color=FOR if score >= 0 else AGAINST, alpha=0.75 * abs(score) / most,
                         linewidth=0)  # fmt: skip


def _draw_row(axes: Axes, explanation: Explanation, scores: Array) -> None:
    array, edges = sums(explanation, scores), times(explanation)
    starts, widths = [start for start, _ in edges], [end - start for start, end in edges]
    axes.bar(starts, array, widths, align="edge", color=[FOR if one >= 0 else AGAINST for one in array], linewidth=0)
    axes.axhline(0, color=_GRAY, linewidth=0.6)
    axes.set_yticks([])
    axes.tick_params(labelsize=8)
    without_frame(axes)


def banded(explanation: Explanation) -> bool:
    return any(position.band is not None for position in explanation.positions)


def envelope(audio: Audio, columns: int) -> tuple[Array, Array]:
    """The lowest and the highest sample of each of so many parts of the sound."""
    parts = np.array_split(audio.samples, min(columns, len(audio.samples)))
    return np.array([part.min() for part in parts]), np.array([part.max() for part in parts])


_TIMED = 18
"""Letters of a time from and to."""


def patch_table(explanation: Explanation, method: str | None = None, layer: int | None = None, count: int = 10) -> str:
    """A headline, and the best patches with their place in the image, their score and a bar."""
    name = chosen_method(explanation, method, layer)
    scores = explanation.scores(name, layer)
    patches = explanation.positions.named
    best = sorted(patches, key=lambda position: -abs(round(float(scores[position.index]), 9)))[:count]
    lines = _headline(explanation, name, layer)
    lines += [streams_line(explanation, name, layer)] if explanation.sequences else []
    what = "patches" if explanation.text is None else "patches and tokens"
    lines.append(f"best {len(best)} of {len(patches)} {what}; r0c0 is at the top left, places are in pixels")
    named = [f"{printable(one.token):<8}{place_text(one):<26}" for one in best]
    lines += _bars(explanation, name, named, [float(scores[one.index]) for one in best])
    return "\n".join([*lines, *notes(explanation)])


def stretch_table(
    explanation: Explanation, method: str | None = None, layer: int | None = None, count: int = 10
) -> str:
    """A headline, and the best stretches with when they begin and end, their score and a bar; then what was written."""
    name = chosen_method(explanation, method, layer)
    scores = explanation.scores(name, layer)
    time_segments, written_down = explanation.time_segments, written_words(explanation)
    sums = {word.positions: float(scores[list(word.positions)].sum()) for word in (*time_segments, *written_down)}
    best = sorted(time_segments, key=lambda word: -abs(round(sums[word.positions], 9)))[:count]
    lines = _headline(explanation, name, layer)
    lines.append(f"best {len(best)} of {len(time_segments)} stretches of time, in seconds")
    shown = [*sorted(best, key=lambda one: one.index), *written_down]
    named = [
        *(_time(explanation, one) for one in shown[: len(best)]),
        *(_time(explanation, one, f" {printable(one.text)}") or printable(one.text) for one in written_down),
    ]
    widest = max(_TIMED, *map(cell_len, named))
    named = [set_cell_size(name, widest) for name in named]
    lines += _bars(explanation, name, named, [sums[one.positions] for one in shown])
    return "\n".join([*lines, *notes(explanation)])


def _time(explanation: Explanation, word: Word, behind: str = "") -> str:
    """From and to, with a name behind it; empty for what has no time."""
    when = explanation.positions.when(word.positions)
    return "" if when is None else f"{when[0]:7.3f} to {when[1]:7.3f}{behind}"


def _headline(explanation: Explanation, name: str, layer: int | None) -> list[str]:
    at = (
        ""
        if explanation.attributions[name].layers is None
        else f" at layer {explanation.layers[-1] if layer is None else layer}"
    )
    averaged = explanation.provenance.get("input", {}).get("averaged", False)
    token = printable(explanation.positions[explanation.position].token)
    whose = explanation.explained if averaged else f"explained position {explanation.position} {token}"
    return [f"{answered(explanation)}{name}{at} · {whose}", judgement(explanation, name, layer)]


def _bars(explanation: Explanation, name: str, named: Sequence[str], scores: Sequence[float]) -> list[str]:
    """A line each; the longest bar is that of the largest score, of another kind where it speaks against."""
    most = max(map(abs, scores), default=0.0)
    decimals = places(scores, explanation.attributions[name].precision)
    bars = [
        (FOR_BAR if score >= 0 else AGAINST_BAR) * round(BAR * abs(score) / most) if most > 0 else ""
        for score in scores
    ]
    return [
        f"{what}{written(score, decimals):>8}  {bar}".rstrip()
        for what, score, bar in zip(named, scores, bars, strict=True)
    ]


def place_text(position: Position) -> str:
    """The box of a patch in the picture; of what has none, where it is."""
    if position.box is None:
        return "not in the image" if position.start is None else "in the text"
    return "{:.0f}, {:.0f} to {:.0f}, {:.0f}".format(*position.box)
